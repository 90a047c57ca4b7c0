"""Test that a training ends with the same weights even if its processes are killed at random times."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.s3.proxy import Fault
from lab.s3.server import Server
from tests.trainer.chaos import CASES, Case, in_faulty_s3, random_plan, steps_for, train
from tests.trainer.fixtures.faults import FAULTS

# The program whose processes are killed in `make test`. `make bench-chaos` kills 1,000 processes in total, of all
# programs.
TRIED = Case("mxnet-horovod", 2)
KILLS = 2
# Seconds between checkpoints. The interval is so short that a checkpoint is being written nearly all the time.
SECONDS_BETWEEN = 0.1


def cases() -> list[Any]:
    """Return the cases, each with its number of kills. `make test` runs only TRIED, with one kill."""
    others = [pytest.param(case, KILLS, marks=pytest.mark.full, id=str(case)) for case in CASES]
    return [pytest.param(TRIED, 1, id=f"{TRIED}, 1 kill"), *others]


@pytest.mark.parametrize(("case", "kills"), cases())
def test_run_killed_at_random_ends_with_the_very_weights_of_an_unbroken_one(
    case: Case, kills: int, digits: Path, tmp_path: Path
) -> None:
    plan = random_plan(case, kills, random.Random())
    steps = steps_for(plan)

    unbroken = train(case, [], steps=steps, every=SECONDS_BETWEEN, folder=tmp_path / "unbroken", digits=digits)
    killed = train(case, plan, steps=steps, every=SECONDS_BETWEEN, folder=tmp_path / "killed", digits=digits)

    assert unbroken.run.returncode == 0, unbroken.run.stderr
    assert killed.run.returncode == 0, (plan, killed.run.stdout + killed.run.stderr)
    assert "resumed from" not in unbroken.run.stdout
    assert len(killed.kills) == kills, (plan, killed.run.stdout)
    # If a kill comes before the first checkpoint, the run starts again from step 0.
    trained_on = [kill for kill in killed.kills if kill.after_checkpoint and kill.seconds_to_step is not None]
    assert all(kill.resumed_step is not None for kill in trained_on), (plan, killed.run.stdout)
    resumed = f" on {case.ranks} ranks (saved on {case.ranks})\n" in killed.run.stdout
    assert resumed or not trained_on, (plan, killed.run.stdout)
    assert killed.weights == unbroken.weights, plan
    assert killed.state == unbroken.state, plan


# Full matrix only. In the full matrix, test_kills_kinds.py also kills a server of a TFJob on the lab's cluster.
@pytest.mark.full
def test_tfjob_starts_again_once_for_each_kill(digits: Path, tmp_path: Path) -> None:
    plan = [(victim, 2, 0.5) for victim in ("ps 0", "worker 0", "chief 0")]
    case, steps = Case("tensorflow-ps", 1), steps_for(plan)

    run = train(case, plan, steps=steps, every=SECONDS_BETWEEN, folder=tmp_path / "killed", digits=digits).run

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stderr.count("distrain-run: starting again") == len(plan), run.stderr


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("case", [case for case in CASES if case.ranks < 3], ids=str)
def test_run_killed_while_s3_fails_ends_with_the_very_weights_of_an_unbroken_one(
    case: Case, fault: dict[str, Fault], digits: Path, tmp_path: Path, s3_server: Server
) -> None:
    plan = random_plan(case, KILLS, random.Random())
    run = partial(train, case, steps=steps_for(plan), every=SECONDS_BETWEEN, digits=digits)

    unbroken = run([], folder=tmp_path / "unbroken")
    with in_faulty_s3(s3_server, digits, fault) as place:
        killed = run(plan, folder=tmp_path / "killed", place=place)

    assert killed.run.returncode == 0, (plan, killed.run.stdout + killed.run.stderr)
    assert len(killed.kills) == KILLS, (plan, killed.run.stdout)
    assert killed.weights == unbroken.weights, plan
    assert killed.state == unbroken.state, plan
