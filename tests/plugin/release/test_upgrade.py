"""Test what the commands `upgrade` and `rescale` do and refuse, with real Helm, the real chart and a fake API."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import console
from distrain.changes import change as command
from distrain.helm.releases import Operation
from tests.plugin.fake_api import FakeApi, releases
from tests.plugin.objects import node, pod
from tests.plugin.program import SECRETS, Run, hold, wrote_nothing
from tests.plugin.release.recorded import JOBS, PODS, Recorded

pytestmark = [pytest.mark.usefixtures("signals"), pytest.mark.either_helm]


def test_dry_run_prints_the_plan_and_changes_nothing(run: Run, running: Recorded) -> None:
    outcome = run("upgrade", "run1", "--reuse-values", "--set", "trainer.steps=900", "--dry-run")

    told = outcome.out.splitlines()
    assert (outcome.code, told[:2]) == (0, ["run1: revision 3 -> 4", "  value     trainer.steps: 600 -> 900"])
    assert told[2] == "  replaced  MPIJob run1: ended, then created anew"
    assert told[3] == "  gpus      2 freed, 2 needed, 8 of 8 free for it (nvidia.com/gpu)"
    assert told[4].startswith("  lost      all steps, of which the log tells none yet, ")
    assert running.upgrades == []
    assert wrote_nothing(running.api)


@pytest.mark.parametrize(("apply_method", "forces"), [("ssa", True), ("csa", False)])
def test_helm_4_takes_over_what_someone_else_has_changed(
    run: Run, running: Recorded, monkeypatch: pytest.MonkeyPatch, helm4: Path, apply_method: str, forces: bool
) -> None:
    asked: list[Operation] = []
    monkeypatch.setenv("HELM_BIN", str(helm4))
    monkeypatch.setattr(command, "upgrade", lambda _, __, operation, *___, **____: asked.append(operation))
    running.be(apply_method=apply_method)

    assert run("rescale", "run1", "--workers", "1", "--yes").code == 0

    assert [operation.forces_conflicts for operation in asked] == [forces]


def test_plan_is_also_json(run: Run, running: Recorded) -> None:
    outcome = run("rescale", "run1", "--workers", "3", "--dry-run", "-o", "json")

    answer = json.loads(outcome.out)
    assert answer["values"] == {"gpus": "2 -> 3", "workers.replicas": "2 -> 3"}
    assert (answer["verdict"], answer["freed"], answer["gpus"]["needed"]) == ("fits", 0, 3)
    assert answer["replaces"] is False


def test_plan_is_also_markdown(run: Run, running: Recorded) -> None:
    outcome = run("rescale", "run1", "--workers", "3", "--dry-run", "-o", "markdown")

    lines = outcome.out.splitlines()
    assert lines[0] == "### `run1`: rescales live"
    assert "  - `workers.replicas`: `2 -> 3`" in lines
    assert "- **GPUs:** 2 before, 3 after, `nvidia.com/gpu`" in lines
    assert lines[-1] == "- **Verdict:** fits"


def test_markdown_of_a_job_that_does_not_fit_says_why(run: Run, running: Recorded) -> None:
    outcome = run("rescale", "run1", "--workers", "9", "--dry-run", "-o", "markdown")

    assert outcome.code == 11
    assert outcome.out.splitlines()[-1].startswith("- **Verdict:** impossible: workers.replicas: 9 workers of 1 nvidia")


def test_release_that_upgrade_would_install_is_also_markdown(run: Run, cluster: FakeApi) -> None:
    cluster.answers[SECRETS] = releases()

    outcome = run("upgrade", "run1", "--install", "--set", "workers.gpus=1", "--dry-run", "-o", "markdown")

    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "### `run1`: a new release, fits")


@pytest.mark.parametrize("command", [["upgrade", "run1"], ["rescale", "run1", "--workers", "1"]], ids=lambda it: it[0])
def test_uninstalled_release_with_a_history_names_the_command_that_installs_it(
    run: Run, running: Recorded, command: list[str]
) -> None:
    running.be("uninstalled")

    outcome = run(*command)

    again = "install it with `helm distrain upgrade --install run1 --namespace team`"
    words = f"distrain: run1: the release is uninstalled, and only its history is kept; {again}\n"
    assert (outcome.code, outcome.err) == (2, words)


@pytest.mark.parametrize(
    "command",
    [["install", "run1"], ["upgrade", "run1"], ["upgrade", "--install", "run1"], ["rescale", "run1", "--workers", "1"]],
    ids=lambda words: " ".join(words[:2]),
)
def test_releases_that_may_not_be_read_are_refused_with_the_missing_permission(
    run: Run, cluster: FakeApi, command: list[str]
) -> None:
    why = 'User "jane" cannot list resource "secrets" in API group "" in the namespace "team"'
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
    refusal = json.dumps({**status, "message": f"secrets is forbidden: {why}"}).encode()
    cluster.spoil = lambda path, code, body: (403, refusal) if path == SECRETS else (code, body)

    outcome = run(*command)

    words = f"Helm's releases cannot be read: secrets is forbidden: {why}; ask for a role that allows `list` on secrets"
    assert (outcome.code, outcome.err) == (3, f"distrain: {words}\n")
    assert wrote_nothing(cluster)


@pytest.mark.parametrize(
    "command",
    [
        ["rescale", "run1", "--workers", "1"],
        ["upgrade", "run1", "--reuse-values", "--set", "workers.replicas=3,gpus=3"],
    ],
    ids=lambda words: words[0],
)
def test_release_that_is_uninstalled_during_the_upgrade_is_told(
    run: Run, running: Recorded, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    running.show(metadata={**running.job["metadata"], "uid": "old"})

    def create_anew(*_: Any, refresh: Callable[[], None], **__: Any) -> None:
        running.show(metadata={**running.job["metadata"], "uid": "new"})
        refresh()

    monkeypatch.setattr("distrain.changes.change.upgrade", create_anew)

    outcome = run(*command, "--yes")

    words = "distrain: run1: someone uninstalled it during the upgrade, which created it again"
    assert (outcome.code, outcome.err.splitlines()[-1]) == (4, words)


def test_unchanged_values_change_nothing(run: Run, running: Recorded) -> None:
    outcome = run("upgrade", "run1", "--yes")

    assert (outcome.code, outcome.out, running.upgrades) == (0, "run1: nothing changes\n", [])


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        pytest.param(["--set", "workers.gpus=2"], None, id="as-helm-without-a-flag"),
        pytest.param(["--reset-values", "--set", "workers.gpus=2"], None, id="reset"),
        pytest.param(["--reuse-values", "--set", "workers.gpus=2,gpus=4"], 600, id="reuse"),
        pytest.param(["--reset-then-reuse-values", "--set", "workers.gpus=2,gpus=4"], 600, id="reset-then-reuse"),
    ],
)
def test_old_values_are_reused_as_the_flags_say(
    run: Run, running: Recorded, arguments: list[str], steps: int | None
) -> None:
    outcome = run("upgrade", "run1", "--yes", *arguments)

    assert outcome.code == 0, outcome.err
    given = yaml.safe_load(running.upgrades[0][0].source.stdin or b"")
    assert (given["workers"]["gpus"], given.get("trainer", {}).get("steps")) == (2, steps)


@pytest.mark.parametrize("status", [pytest.param(200, id="allowed"), pytest.param(403, id="forbidden")])
def test_launcher_at_another_size_has_its_pod_annotated_where_that_is_allowed(
    run: Run, running: Recorded, status: int
) -> None:
    running.api.answers[f"{PODS}/launcher-x"] = {} if status == 200 else status

    outcome = run("rescale", "run1", "--workers", "3", "--yes")

    assert outcome.code == 0
    assert running.api.requests[-1] == f"PATCH {PODS}/launcher-x"
    assert running.api.headers[-1]["Content-Type"] == "application/merge-patch+json"


def test_job_of_the_same_size_has_no_pod_annotated(run: Run, running: Recorded) -> None:
    outcome = run("upgrade", "run1", "--reuse-values", "--set", "trainer.steps=900", "--yes")

    assert outcome.code == 0
    assert not any(request.startswith("PATCH") for request in running.api.requests)


def test_job_that_does_not_fit_at_the_new_size_is_refused_after_the_plan(run: Run, running: Recorded) -> None:
    outcome = run("rescale", "run1", "--workers", "9", "--yes")

    assert outcome.code == 11
    assert outcome.out.startswith("run1: revision 3 -> 4\n")
    assert outcome.err.startswith("distrain: impossible: workers.replicas: ")
    assert running.upgrades == []


@pytest.mark.parametrize(("history", "code"), [("10", 10), ("3", 0)])
def test_quota_counts_the_secret_in_which_helm_records_the_next_revision(
    run: Run, running: Recorded, history: str, code: int
) -> None:
    amounts = {"hard": {"secrets": "12"}, "used": {"secrets": "11"}}
    quota = {"metadata": {"name": "few", "namespace": "team"}, "spec": {"hard": amounts["hard"]}, "status": amounts}
    running.api.answers["/api/v1/namespaces/team/resourcequotas"] = [quota]

    outcome = run("rescale", "run1", "--workers", "3", "--dry-run", "--history-max", history)

    assert outcome.code == code, outcome.err


def test_ignored_change_is_refused_by_its_value(run: Run, running: Recorded) -> None:
    outcome = run("upgrade", "run1", "--yes", "--reuse-values", "--set", "podLabels.team=a")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: podLabels.team: MPIJob run1: ")
    assert "  ignored   MPIJob run1: " in outcome.out
    assert running.upgrades == []


def test_job_that_has_ended_is_not_rescaled(run: Run, running: Recorded) -> None:
    running.show(status={"conditions": [{"type": "Succeeded", "status": "True"}]})

    outcome = run("rescale", "run1", "--workers", "3", "--yes")

    assert (outcome.code, outcome.out) == (2, "")
    words = "distrain: run1: its job has succeeded already, and this upgrade does not run it again"
    assert outcome.err.startswith(words)


def test_job_that_is_gone_is_not_made_again(run: Run, running: Recorded) -> None:
    del running.api.answers[f"{JOBS}/{running.job['metadata']['name']}"]

    outcome = run("rescale", "run1", "--workers", "3", "--yes")

    assert (outcome.code, outcome.out) == (2, "")
    assert "is gone: its ttlSecondsAfterFinished or a user has deleted it" in outcome.err


BACK, REMOVED = "`helm rollback run1 {} --namespace team`", "`helm uninstall run1 --namespace team`"
BUSY = "another helm command is still changing it, or was killed; wait for that command to end, or"


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ("superseded deployed pending-upgrade", f"is pending-upgrade: {BUSY} undo its changes with {BACK.format(2)}"),
        ("superseded deployed failed", f"is failed; undo it with {BACK.format(2)}, then try again"),
        ("superseded superseded failed", f"is failed; undo it with {BACK.format(2)}, then try again"),
        ("deployed failed failed", f"is failed; undo it with {BACK.format(1)}, then try again"),
        ("deployed superseded failed", f"is failed; undo it with {BACK.format(1)}, then try again"),
        ("deployed failed pending-rollback", f"is pending-rollback: {BUSY} undo its changes with {BACK.format(1)}"),
        ("failed", f"is failed; undo it with {REMOVED}, then try again"),
        ("failed failed", f"is failed; undo it with {REMOVED}, then try again"),
        ("pending-install", f"is pending-install: {BUSY} undo its changes with {REMOVED}"),
        ("deployed uninstalling", f"is uninstalling: {BUSY} run {REMOVED} again"),
    ],
)
def test_release_between_two_revisions_is_refused_with_the_way_to_one_that_worked(
    run: Run, running: Recorded, statuses: str, words: str
) -> None:
    running.be_after(*statuses.split())

    outcome = run("upgrade", "run1", "--yes")

    assert (outcome.code, outcome.err) == (2, f"distrain: run1: revision {len(statuses.split())} {words}\n")


@pytest.mark.parametrize("status", ["deployed", "failed"])
def test_job_that_the_last_revision_does_not_name_is_reported_with_what_ends_it(
    run: Run, running: Recorded, status: str
) -> None:
    left = {**running.job["metadata"], "name": "run1-old", "annotations": {"meta.helm.sh/release-name": "run1"}}
    known = {**left, "name": running.job["metadata"]["name"]}
    running.api.answers[JOBS] = [{"metadata": left}, {"metadata": known}]
    running.be(status)

    told = run("upgrade", "run1", "--dry-run").err

    ends = "`kubectl --namespace team delete mpijobs.kubeflow.org run1-old` ends it"
    assert told.count(ends) == 1
    assert told.count("kubectl") == 1


@pytest.mark.parametrize("command", [("upgrade", "run1"), ("rescale", "run1", "--workers", "2")])
def test_release_that_cannot_be_read_is_not_changed(run: Run, cluster: FakeApi, command: tuple[str, ...]) -> None:
    cluster.answers[SECRETS] = 403

    outcome = run(*command)

    assert outcome.code == 4
    assert outcome.err.splitlines()[-1] == "distrain: nothing was changed"


def test_release_that_is_not_there_is_named(run: Run, cluster: FakeApi) -> None:
    cluster.answers[SECRETS] = releases()

    outcome = run("rescale", "run1", "--workers", "2", "--yes")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: run1: there is no release of this name in namespace team; `helm list")


def test_file_that_is_no_yaml_is_named_before_a_missing_release(run: Run, cluster: FakeApi, tmp_path: Path) -> None:
    cluster.answers[SECRETS] = releases()
    file = tmp_path / "broken.yaml"
    file.write_text("a: [1\n b\n")

    outcome = run("upgrade", "run1", "-f", str(file))

    words = f"distrain: --values: {file}: line 2 is not valid YAML; check indentation, brackets and quotes there\n"
    assert (outcome.code, outcome.err) == (2, words)


def test_chart_of_another_version_is_warned_of(run: Run, running: Recorded) -> None:
    running.be(chart="0.0.9")

    outcome = run("rescale", "run1", "--workers", "3", "--dry-run")

    assert outcome.err.startswith("distrain: warning: run1 uses chart 0.0.9 and will get chart 0.1.0")


@pytest.mark.parametrize("flags", [(), ("--reuse-values",), ("--reset-values",)])
def test_values_that_are_not_reused_are_warned_of(run: Run, running: Recorded, flags: tuple[str, ...]) -> None:
    outcome = run("upgrade", "run1", "--set", "trainer.steps=900", "--dry-run", *flags)

    warning = "warning: like `helm upgrade`, this command does not reuse the values of release run1; give them with -f"
    assert (warning in outcome.err) is (flags == ())


def test_nobody_to_ask_needs_yes(run: Run, running: Recorded) -> None:
    outcome = run("rescale", "run1", "--workers", "3")

    assert (outcome.code, running.upgrades) == (2, [])
    assert outcome.out.startswith("run1: revision 3 -> 4\n")
    last = outcome.err.splitlines()[-1]
    assert last.startswith("distrain: --yes: is missing, and without a terminal the command cannot ask you")


@pytest.mark.parametrize("command", [("upgrade", "run1", "--reuse-values"), ("rescale", "run1", "--workers", "2")])
def test_nothing_that_changes_needs_no_yes(run: Run, running: Recorded, command: tuple[str, ...]) -> None:
    outcome = run(*command)

    assert (outcome.code, outcome.out, outcome.err) == (0, "run1: nothing changes\n", "")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("\n", 130), ("n\n", 130)])
def test_question_is_asked_on_a_terminal(
    run: Run, running: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, code: int
) -> None:
    (tmp_path / "answer").write_text(answer)
    monkeypatch.setattr(console, "can_ask", lambda: True)

    with (tmp_path / "answer").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        outcome = run("rescale", "run1", "--workers", "3")

    assert (outcome.code, len(running.upgrades)) == (code, code == 0)
    assert "distrain: change run1 like this? [y/N] " in outcome.err


def test_job_is_suspended_although_nothing_is_free(run: Run, running: Recorded) -> None:
    hold(running.api, [node("a", gpu="8")], [pod("p", on="a", gpu="8")])

    outcome = run("upgrade", "run1", "--reuse-values", "--set", "job.suspend=true", "--yes")

    assert outcome.code == 0, outcome.err
    [(_, planned)] = running.upgrades
    assert (planned.suspends, planned.replaces) == (True, False)
    assert "  suspended the job's pods end, and it waits until job.suspend is false" in outcome.out


@pytest.mark.parametrize("used", [0, 8], ids=["free", "busy"])
def test_job_goes_on_only_if_it_fits(run: Run, running: Recorded, used: int) -> None:
    suspended = [item for item in yaml.safe_load_all(running.manifest) if item]
    for item in suspended:
        if item["kind"] == "MPIJob":
            item["spec"]["runPolicy"]["suspend"] = True
    running.manifest = yaml.safe_dump_all(suspended)
    running.be()
    hold(running.api, [node("a", gpu="8")], [pod("p", on="a", gpu=str(used))])

    outcome = run("upgrade", "run1", "--reuse-values", "--set", "job.suspend=false", "--yes")

    assert (outcome.code, len(running.upgrades)) == ((10, 0) if used else (0, 1))
    assert "  resumed   the job's pods are created; it trains from the start" in outcome.out


@pytest.mark.parametrize("flag", ["--wait", "--atomic"])
def test_suspension_is_not_waited_for(run: Run, running: Recorded, flag: str) -> None:
    outcome = run("upgrade", "run1", "--reuse-values", "--set", "job.suspend=true", "--yes", flag)

    assert outcome.code == 2
    assert f"job.suspend: is true, so the job has no pods, and {flag} would wait for nothing" in outcome.err
    assert running.upgrades == []
