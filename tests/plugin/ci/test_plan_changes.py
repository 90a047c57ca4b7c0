"""Test docs/ci/plan_changes.py with the real plugin, on a git repository with commits of every kind.

Only one test starts the script and the plugin as separate programs, with the real Helm. In all other tests, the script
and the plugin run in the tests' own process.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.plugin.ci.planned import FOUR, TWO, Planned, Repository

# This command starts the plugin in a process of its own.
PLUGIN = f"{sys.executable} {REPOSITORY / 'plugin'}"
OTHER_IMAGE = f"{TWO}image: {{tag: other}}\n"
MISSPELT = "wrokers: {replicas: 2}\n"
FIRST_LINES = ["<!-- distrain-plan -->", "## What this change does to the training runs", ""]


def _sections(planned: Planned) -> str:
    lines = planned.out.splitlines()
    assert lines[:3] == FIRST_LINES
    return "\n".join(lines[3:])


def test_change_of_other_files_changes_no_run(repository: Repository) -> None:
    repository.commit(readme="a: 1\n", runs__more__run9="a: 1\n")

    planned = repository.plan("--runs", "runs/run?.yaml")

    assert (planned.code, _sections(planned)) == (0, "It changes no run.")


def test_commit_without_a_change_changes_no_run(repository: Repository) -> None:
    repository.commit()

    assert _sections(repository.plan()) == "It changes no run."


def test_comment_of_a_file_changes_nothing(repository: Repository) -> None:
    repository.commit(runs__run1=f"# mine\n{TWO}")

    assert repository.plan().heads == ["`run1`: nothing changes"]


def test_another_size_rescales(repository: Repository) -> None:
    repository.commit(runs__run1=FOUR)

    planned = repository.plan(distrain=PLUGIN)

    assert planned.code == 0, planned.err
    assert _sections(planned).splitlines() == [
        "### `run1`: rescales live",
        "",
        "- **File:** `runs/run1.yaml`",
        "- **Values:**",
        "  - `workers.replicas`: `2 -> 4`",
        "- **Effect:**",
        "  - live: `MPIJob run1: spec.mpiReplicaSpecs.Worker.replicas`: `2 -> 4`",
        "- **GPUs:** 8 before, 16 after, `nvidia.com/gpu`",
        "- **Lost:** nothing: the job goes on",
    ]


def test_another_image_replaces_the_job(repository: Repository) -> None:
    repository.commit(runs__run1=OTHER_IMAGE)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (0, ["`run1`: a new job replaces the running one"])


@pytest.mark.parametrize(
    ("values", "code", "verdict"),
    [
        pytest.param(FOUR, 1, "- **Verdict:** impossible: ", id="does-not-fit"),
        pytest.param(OTHER_IMAGE, 0, "- **Verdict:** fits: ", id="fits"),
    ],
)
def test_snapshot_adds_the_verdict(repository: Repository, snapshot: str, values: str, code: int, verdict: str) -> None:
    repository.commit(runs__run1=values)

    planned = repository.plan("--snapshot", snapshot)

    assert planned.code == code, planned.out
    assert planned.out.count(verdict) == 1


def test_values_that_the_schema_refuses_are_named(repository: Repository) -> None:
    repository.commit(runs__run1=MISSPELT)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`run1`: refused"])
    assert "\n```text\ndistrain: wrokers: " in planned.out


def test_change_that_nothing_applies_is_refused(repository: Repository) -> None:
    repository.commit(runs__run1=f"{TWO}podLabels: {{team: a}}\n")

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`run1`: would be refused"])


def test_file_that_was_refused_before_is_planned_as_a_new_run(repository: Repository) -> None:
    repository.commit(runs__run1=MISSPELT)
    repository.git("checkout", "-B", "main")
    repository.git("checkout", "-b", "fix")
    repository.commit(runs__run1=TWO)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (0, ["`run1`: a new run"])
    assert "- **Effect:** the file before is refused, so the run is taken as a new one." in planned.out


def test_deleted_file_ends_its_run(repository: Repository) -> None:
    repository.commit(runs__run1=None)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (0, ["`run1`: removed"])


@pytest.mark.parametrize(
    ("values", "code", "head"),
    [
        pytest.param(FOUR, 1, "`run2`: a new run", id="does-not-fit"),
        pytest.param(TWO, 0, "`run2`: a new run", id="fits"),
        pytest.param(MISSPELT, 1, "`run2`: refused", id="refused"),
    ],
)
def test_new_file_is_a_new_run(repository: Repository, snapshot: str, values: str, code: int, head: str) -> None:
    repository.commit(runs__run2=values)

    planned = repository.plan("--snapshot", snapshot)

    assert (planned.code, planned.heads) == (code, [head]), planned.out


def test_renamed_file_ends_one_run_and_starts_another(repository: Repository) -> None:
    repository.git("mv", "runs/run1.yaml", "runs/run2.yaml")
    repository.commit()

    planned = repository.plan()

    assert (planned.code, planned.heads) == (0, ["`run1`: removed", "`run2`: a new run"])
    assert "- **Renamed:** `run2` starts as a new run: a run is known by its name" in planned.out
    assert "It does not find the checkpoints of its old name." in planned.out


def test_file_in_another_folder_is_the_same_run(repository: Repository) -> None:
    (repository.folder / "runs" / "team").mkdir()
    repository.git("mv", "runs/run1.yaml", "runs/team/run1.yaml")
    repository.commit()

    planned = repository.plan("--runs", "runs/*")

    assert (planned.code, planned.heads) == (0, ["`run1`: nothing changes"])


def test_rewritten_file_in_another_folder_is_the_same_run(repository: Repository) -> None:
    repository.commit(runs__run1=None, runs__team__run1=f"# rewritten\ntrainer: {{model: vgg16, steps: 9}}\n{FOUR}")

    assert repository.plan("--runs", "runs/*").heads == ["`run1`: a new job replaces the running one"]


def test_run_is_known_by_its_name_although_git_takes_another_file_for_it(repository: Repository) -> None:
    repository.git("mv", "runs/run1.yaml", "runs/run2.yaml")
    repository.commit(runs__team__run1=f"# rewritten\ntrainer: {{model: vgg16, steps: 9}}\n{FOUR}")

    planned = repository.plan("--runs", "runs/*")

    assert planned.heads == ["`run2`: a new run", "`run1`: a new job replaces the running one"]


def test_two_runs_in_one_commit_have_a_section_each_and_the_refused_one_comes_first(repository: Repository) -> None:
    repository.git("checkout", "main")
    repository.commit(runs__run2=TWO)
    repository.git("checkout", "-b", "both")
    repository.commit(runs__run1=FOUR, runs__run2=MISSPELT)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`run2`: refused", "`run1`: rescales live"])


def test_merge_of_the_base_shows_only_what_the_branch_changes(repository: Repository) -> None:
    repository.commit(runs__run1=FOUR)
    repository.git("checkout", "main")
    repository.commit(runs__run2=TWO)
    repository.git("checkout", "change")
    repository.git("merge", "--no-edit", "main")

    assert repository.plan().heads == ["`run1`: rescales live"]


def test_branch_that_is_behind_does_not_undo_what_the_base_has_since(repository: Repository) -> None:
    repository.commit(runs__run1=FOUR)
    repository.git("checkout", "main")
    repository.commit(runs__run2=TWO)
    repository.git("checkout", "change")

    assert repository.plan().heads == ["`run1`: rescales live"]


def test_common_file_changes_every_run(repository: Repository) -> None:
    repository.git("checkout", "main")
    repository.commit(common="trainer: {steps: 600}\n", runs__run2=FOUR)
    repository.git("checkout", "-b", "steps")
    repository.commit(common="trainer: {steps: 900}\n", runs__run1=f"# mine\n{TWO}")

    planned = repository.plan("--common", "common.yaml")

    replaced = "a new job replaces the running one"
    assert planned.heads == [f"`run1`: {replaced}", f"`run2`: {replaced}"]
    assert planned.out.count("  - `trainer.steps`: `600 -> 900`") == 2


def test_files_may_be_named_with_a_dot_and_from_any_folder(repository: Repository) -> None:
    repository.git("checkout", "main")
    repository.commit(common="trainer: {steps: 600}\n")
    repository.git("checkout", "-b", "steps")
    repository.commit(common="trainer: {steps: 900}\n", other__a="a: 1\n")

    inside = replace(repository, folder=repository.folder / "other")
    for place in (repository, inside):
        planned = place.plan("--common", "./common.yaml", "--runs", "./runs/*.yaml")
        assert "  - `trainer.steps`: `600 -> 900`" in planned.out


def test_common_file_that_is_new_counts_for_the_change_alone(repository: Repository) -> None:
    repository.commit(common="trainer: {steps: 900}\n")

    assert "  - `trainer.steps`: " in repository.plan("--common", "common.yaml").out


def test_name_of_a_file_stays_words(repository: Repository) -> None:
    repository.commit(**{"runs__@all `x` [a](b)": TWO})

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["``@all `x` [a](b)``: refused"])


@pytest.mark.parametrize("name", ["--help", "-h", "--set=a=b"])
def test_name_of_a_file_is_no_flag(repository: Repository, name: str) -> None:
    repository.commit(**{f"runs__{name}": TWO})

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, [f"`{name}`: refused"])
    assert "a run's name cannot begin with a dash" in planned.out


def test_name_that_is_no_utf_8_is_refused(repository: Repository) -> None:
    Path(os.fsdecode(os.fsencode(repository.folder) + b"/runs/caf\xe9.yaml")).write_text(TWO)
    repository.commit()

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`caf?`: refused"])


def test_message_names_the_file_in_git(repository: Repository) -> None:
    repository.commit(runs__run1="text\n")

    planned = repository.plan()

    # The same commits give the same comment.
    assert "distrain: --values: runs/run1.yaml: found text; " in planned.out
    assert planned.out == repository.plan().out


def test_two_files_of_one_name_are_refused(repository: Repository) -> None:
    repository.commit(runs__more__run1=FOUR)

    planned = repository.plan()

    assert (planned.code, planned.heads) == (1, ["`run1`: refused"])
    assert "\nruns/run1.yaml has the same name, and a run is known by its name" in planned.out


def test_long_comment_leaves_out_the_runs_that_do_not_fit(repository: Repository, tmp_path: Path) -> None:
    """If the plan of one run is too long, the comment still contains the plans of the runs after it.

    The test uses a character of several bytes, because the comment's limit is in bytes.
    """
    fake = tmp_path / "fake"
    fake.write_text(
        "#!/bin/sh\n[ $2 = run1 ] && amount=70000 || amount=20000\n"
        "printf '### `%s`: long\\n\\n%*d%s\\n' $2 $amount 1 $(printf '€%.0s' $(seq 1000))\n"
    )
    fake.chmod(0o755)
    repository.git("checkout", "main")
    repository.commit(**{f"runs__run{number}": TWO for number in range(5)})
    repository.git("checkout", "-b", "many")
    repository.commit(**{f"runs__run{number}": FOUR for number in range(5)})

    planned = repository.plan(distrain=str(fake))

    assert len(planned.out.encode()) < 65_536
    assert planned.heads == ["`run0`: long", "`run2`: long"]
    assert planned.out.endswith("\n\n3 more that do not fit into this comment\n")


@pytest.mark.parametrize(
    ("base", "words"),
    [("nowhere", "git merge-base: fatal: Not a valid object name nowhere; name commits of this repository")],
)
def test_unknown_commit_is_refused(repository: Repository, base: str, words: str) -> None:
    planned = repository.plan(base=base)

    assert (planned.code, planned.out) == (2, "")
    assert planned.err.startswith(f"plan_changes.py: {words}")
