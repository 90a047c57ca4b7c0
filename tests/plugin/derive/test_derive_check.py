"""Test `derive --check`, which reports the stale derived values in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.plugin.derive.deriving import GOLDEN, Derive
from tests.plugin.program import Outcome

NEXT_STEP = "run `helm distrain derive` with this file and keep what it prints"


def test_check_passes_a_derived_file_and_needs_no_cluster(derive_with_each: Derive) -> None:
    outcome = derive_with_each(GOLDEN / "derived.yaml", "--check")

    assert outcome == Outcome(0, "derived values are up to date\n", "")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(
            "gpus: 32",
            "gpus: 64",
            "workers.replicas: found 4 x workers.gpus 8 = 32, expected gpus 64",
            id="another-total",
        ),
        pytest.param(
            "replicas: 4 ",
            "replicas: 2 ",
            "workers.replicas: found 2 x workers.gpus 8 = 16, expected gpus 32",
            id="replicas-changed",
        ),
        pytest.param(
            "shm: 8Gi ",
            "shm: 4Gi ",
            "workers.shm: found 4Gi, expected 8Gi (1Gi for each of 8 ranks)",
            id="shm-changed",
        ),
        pytest.param(
            "batchSize: 64",
            "batchSize: 32",
            "comment 'global batch': found \"2048 = 32 ranks x trainer.batchSize 64\", "
            'expected "1024 = 32 ranks x trainer.batchSize 32"',
            id="batch-changed",
        ),
        pytest.param(
            "#   world size        32 = 4 workers x 8 ranks\n",
            "",
            "comment 'world size': found nothing, expected \"32 = 4 workers x 8 ranks\"",
            id="figure-removed",
        ),
    ],
)
def test_check_names_what_is_stale(derive: Derive, old: str, new: str, words: str) -> None:
    text = (GOLDEN / "derived.yaml").read_text()
    assert old in text

    outcome = derive(text.replace(old, new), "--check")

    assert outcome == Outcome(2, "", f"distrain: {words}; {NEXT_STEP}\n")


def test_check_of_several_files_names_each_stale_one(derive: Derive, tmp_path: Path) -> None:
    stale = tmp_path / "stale.yaml"
    stale.write_text((GOLDEN / "derived.yaml").read_text().replace("gpus: 32", "gpus: 16"))
    never = tmp_path / "never.yaml"
    never.write_text("gpus: 32\n")

    outcome = derive("", "--check", str(stale), str(GOLDEN / "derived.yaml"), str(never))

    assert outcome.code == 2
    assert [line.split(": ")[1] for line in outcome.err.splitlines()] == [str(stale), str(never)]


def test_check_of_several_derived_files_passes(derive: Derive, tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    copy.write_text((GOLDEN / "derived.yaml").read_text())

    outcome = derive("", "--check", str(copy), str(copy))

    assert (outcome.code, outcome.out) == (0, "derived values are up to date\n")


def test_values_file_that_the_page_on_gitops_starts_from_is_derived(derive: Derive) -> None:
    assert derive("", "--check", str(REPOSITORY / "docs" / "run1.yaml")).code == 0


def test_stdin_below_several_files_counts_for_each(derive: Derive, tmp_path: Path) -> None:
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text((GOLDEN / "derived.yaml").read_text())
    assert "memory" not in files[0].read_text()

    outcome = derive("workers: {memory: 4Gi}\n", "--check", *map(str, files))

    words = "workers.shm: found 8Gi, expected 2Gi (half of workers.memory)"
    assert outcome.code == 2
    assert outcome.err.splitlines() == [f"distrain: {file}: {words}; {NEXT_STEP}" for file in files]


def test_check_of_a_file_that_was_never_derived_says_so(derive: Derive) -> None:
    outcome = derive("gpus: 32\n", "--check")

    assert outcome.code == 2
    assert outcome.err == f"distrain: gpus: 32 is not divided into workers.replicas and workers.gpus yet; {NEXT_STEP}\n"


@pytest.mark.parametrize("path", sorted((REPOSITORY / "values").glob("*.yaml")), ids=lambda path: path.stem)
def test_check_passes_every_values_file(derive: Derive, path: Path) -> None:
    assert derive(path, "--check") == Outcome(0, "derived values are up to date\n", "")


def test_check_passes_a_derived_file_with_the_line_ends_of_windows(derive: Derive) -> None:
    text = (GOLDEN / "derived.yaml").read_text().replace("\n", "\r\n")

    assert derive(text, "--check") == Outcome(0, "derived values are up to date\n", "")


def test_check_against_other_nodes_finds_the_split_stale(derive: Derive) -> None:
    outcome = derive(GOLDEN / "derived.yaml", "--check", "--node-gpus", "4")

    assert outcome.code == 2
    assert outcome.err.startswith(
        "distrain: workers.replicas: found 4, expected 8 (gpus / workers.gpus = 32 / 4); run "
    )


def test_check_names_the_first_value_of_the_file_that_is_derived_no_more(derive: Derive) -> None:
    derived = derive("gpus: 1\n", "--node-gpus", "8").out
    shm = "  shm: 8Gi  # derived: 1Gi for each of 8 ranks\n"
    share = "# derived: a node's share for 8 GPUs\n"

    one, three = (
        derive(derived.replace("workers:\n", f"workers:\n{lines}"), "--check")
        for lines in (shm, f"  cpu: 15  {share}  memory: 60Gi  {share}{shm}")
    )

    assert one == Outcome(2, "", f"distrain: workers.shm: found 8Gi, expected nothing; {NEXT_STEP}\n")
    assert three.err.endswith(f"distrain: workers.cpu: found 15, expected nothing; {NEXT_STEP}\n")
