"""Test what only programs with parameter servers have: weights on servers, and processes that end together."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain_trainer.errors import rank_from_environment
from distrain_trainer.tensorflow.placement import spread
from tests.matrix import one_of
from tests.trainer.conftest import SCRIPTS, ProgramInImage, Run, assert_refused

ENDLESS = ("--steps", "1000000", "--log-every", "1000")
TFJOB = '{"cluster": {}, "task": {"type": "%s", "index": %d}}'


@pytest.fixture
def program(digits: Path) -> ProgramInImage:
    return ProgramInImage.named("tensorflow-ps", digits)


def without_operator(workers: int) -> list[str]:
    return ["python3", "/tfjob.py", "--without-operator", "--forked", str(workers), "1", "python3"]


def run_until_one_ends(program: ProgramInImage, which: str) -> Run:
    script = {SCRIPTS / "faults/ends_suddenly.py": "/ends.py"}
    env = {"ENDS_SUDDENLY": which}
    return program(*ENDLESS, script="/ends.py", starter=without_operator, env=env, mounts=script)


@pytest.mark.parametrize("which", one_of(["worker 1", "ps 0"]))
def test_lost_process_ends_the_others(program: ProgramInImage, which: str) -> None:
    run = run_until_one_ends(program, which)

    assert_refused(run, f"{which} has ended before the training, and so all others do; its log says why", code=1)


# Full matrix only: in the previous test, the server and the other worker also end because the chief has ended.
@pytest.mark.full
def test_lost_chief_ends_the_others(program: ProgramInImage) -> None:
    run = run_until_one_ends(program, "chief 0")

    # The chief logs nothing. Three processes print this line: the server and the two workers.
    assert run.returncode == 9, run.stderr
    assert run.stderr.count("distrain: the chief has ended before the training, and so all others do") == 3


@pytest.mark.parametrize(
    ("sizes", "servers", "chosen"),
    [
        pytest.param([1, 2, 3], 1, [0, 0, 0], id="one-server-has-all"),
        pytest.param([100, 60, 50, 5], 2, [0, 1, 1, 0], id="even"),
        pytest.param([7], 3, [0], id="more-servers-than-variables"),
    ],
)
def test_weights_are_spread_evenly(sizes: list[int], servers: int, chosen: list[int]) -> None:
    assert spread(sizes, servers) == chosen


def test_run_that_is_no_tfjob_is_refused(program: ProgramInImage) -> None:
    run = program("--steps", "1", starter=lambda ranks: ["python3"])

    assert_refused(run, r"strategy: parameter-server needs a chief, workers and servers, and TF_CONFIG does not name")


@pytest.mark.parametrize(
    ("task", "index", "rank"),
    [
        pytest.param("chief", 0, 0, id="chief-speaks-for-all"),
        pytest.param("worker", 0, 1, id="first-worker"),
        pytest.param("ps", 2, 3, id="server"),
    ],
)
def test_tfjob_says_who_a_process_is(monkeypatch: pytest.MonkeyPatch, task: str, index: int, rank: int) -> None:
    monkeypatch.setenv("TF_CONFIG", TFJOB % (task, index))

    assert rank_from_environment() == rank
