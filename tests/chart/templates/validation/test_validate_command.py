"""Test rules on the user's own program (templates/validate): values with which every pod would fail are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chart.rendering import refusal, render, set_arguments

pytestmark = pytest.mark.either_helm

PYTORCH = "framework=pytorch"
STARTERS = [
    (["mpirun", "-np", "99", "train"], "mpirun", " (options of mpirun belong in mpi.flags)", ()),
    (["/opt/hpcx/bin/mpiexec", "train"], "mpiexec", " (options of mpirun belong in mpi.flags)", ()),
    (["torchrun", "--nproc-per-node=8", "train.py"], "torchrun", "", (PYTORCH,)),
    (["python3", "-m", "torch.distributed.run", "train.py"], "python3 -m torch.distributed.run", "", (PYTORCH,)),
    (["accelerate", "launch", "train.py"], "accelerate launch", "", (PYTORCH,)),
    (["/usr/bin/env", "mpirun", "x.py"], "mpirun", " (options of mpirun belong in mpi.flags)", ()),
    (["env", "-i", "-u", "HOME", "A=1", "torchrun", "x.py"], "torchrun", "", (PYTORCH,)),
    (["env", "python3", "-m", "torch.distributed.run"], "python3 -m torch.distributed.run", "", (PYTORCH,)),
]


def _set(command: list[str], more: tuple[str, ...] = ()) -> list[str]:
    return [*set_arguments(*more), "--set-json", f"command={json.dumps(command)}"]


@pytest.mark.parametrize(("command", "starter", "place", "more"), STARTERS, ids=lambda case: str(case)[:20])
def test_program_that_starts_ranks_is_refused_with_two_ways_out(
    helm: Path, command: list[str], starter: str, place: str, more: tuple[str, ...]
) -> None:
    message = refusal(helm, *_set(command, more))

    assert f"distrain: command: {starter} starts ranks, but distrain starts every rank itself: it runs" in message
    ways = f"leave out {starter} and its options{place}, or call it in your own script if each rank has to start"
    assert ways in message


def test_one_string_is_refused_with_two_ways_out_and_without_its_arguments(helm: Path) -> None:
    message = refusal(helm, *_set(["python3 /app/train.py --token=abc"]))

    assert 'distrain: command[0]: "python3 ..." is one string with spaces; write each word as an item' in message
    assert 'as in [python3, ...], or let a shell split it, as in [sh, -c, "python3 ..."]\n' in message
    assert "abc" not in message


@pytest.mark.parametrize(
    "command",
    [
        ["python3", "/app/train.py", "--name", "a b"],
        ["sh", "-c", "mpirun -np 2 train"],
        ["python3", "-m", "torch.distributed_tests"],
        ["accelerate", "test"],
        ["env", "-u", "mpirun", "A=1", "python3", "train.py", "mpirun"],
        ["env"],
        ["my-mpirun"],
    ],
)
def test_other_programs_are_accepted(helm: Path, command: list[str]) -> None:
    render(helm, *_set(command))
