"""Test the all-reduce of `helm test`: sums are exact, wrong sums are detected, bandwidths fit their definition."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from distrain_trainer.allreduce.__main__ import Options, SumError, expected, line, parse, require_right, values
from distrain_trainer.errors import ArgumentError
from tests.matrix import one_of
from tests.trainer.conftest import SCRIPTS, Mpirun, forked_of, mpirun_of, run_in_image

PROGRAM = ("python3", "-m", "distrain_trainer.allreduce", "--backend=horovod")


@pytest.mark.parametrize("ranks", [1, 2, 7, 1000])
def test_formula_is_the_sum_of_all_ranks_values(ranks: int) -> None:
    count = 2500

    summed = sum(values(rank, count).astype(np.float64) for rank in range(ranks))

    np.testing.assert_array_equal(expected(ranks, count), summed)


def test_one_wrong_number_is_found_and_named() -> None:
    total = expected(4, 100)
    require_right(total, ranks=4, rank=2)
    total[42] += 1

    with pytest.raises(SumError, match=r"1 of 100 sums are wrong on rank 2; the sum at index 42 is 179 instead of 178"):
        require_right(total, ranks=4, rank=2)


@pytest.mark.parametrize(
    ("size", "seconds", "ranks", "shown"),
    [
        pytest.param(64 * 1024**2, 0.1, 4, "64 MiB 100000.0 0.671 1.007", id="one-and-a-half-times-on-4"),
        pytest.param(1024, 1e-6, 2, "1 KiB 1.0 1.024 1.024", id="once-on-2"),
        pytest.param(1536, 1e-6, 1, "1.5 KiB 1.0 1.536 0.000", id="nothing-on-1"),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(size: int, seconds: float, ranks: int, shown: str) -> None:
    assert line(size, seconds=seconds, ranks=ranks).split() == shown.split()


def test_command_line_is_understood() -> None:
    assert parse(["--backend=torch", "--sizes=4,1Ki, 2Mi", "--repeats=3"]) == Options(
        "torch", (4, 1024, 2 * 1024**2), 3
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param("", r"the following arguments are required: --backend", id="no-backend"),
        pytest.param("--backend=mpi", r"argument --backend: invalid choice: 'mpi'", id="unknown-backend"),
        pytest.param("--backend=torch --sizes=1KB", r"--sizes: '1KB' is no size; give bytes", id="unknown-unit"),
        pytest.param("--backend=torch --sizes=6", r"--sizes: 6 bytes are no whole number of float32", id="half"),
        pytest.param("--backend=torch --sizes=0", r"--sizes: 0 bytes are no whole number of float32", id="nothing"),
        pytest.param("--backend=torch --repeats=0", r"--repeats: 0 is below 1", id="no-repeats"),
    ],
)
def test_wrong_argument_is_refused(arguments: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        parse(arguments.split())


# test_helm_test.py also runs the all-reduce with TensorFlow, on the lab's cluster. training/test_pytorch.py runs it
# with PyTorch.
@pytest.mark.parametrize("framework", one_of(["mxnet", "tensorflow", "pytorch"]))
def test_two_ranks_agree_and_rank_0_prints_the_table(mpirun: Mpirun, framework: str) -> None:
    run = mpirun(*PROGRAM, framework=framework)

    assert run.returncode == 0, run.stderr
    title, header, *lines, verdict = run.stdout.splitlines()
    assert title == "all-reduce of float32 over 2 ranks, by horovod"
    assert header.split() == ["size", "time/us", "alg", "GB/s", "bus", "GB/s"]
    assert [" ".join(line.split()[:2]) for line in lines] == ["1 KiB", "8 KiB", "64 KiB", "512 KiB", "4 MiB", "64 MiB"]
    assert all(re.fullmatch(r" +\d+ [KM]iB( +\d+\.\d+){3}", line) for line in lines)
    assert verdict == "all-reduce is right on 2 ranks: each rank got the correct sums"
    assert run.stderr == ""


def test_wrong_sum_of_one_rank_fails_the_whole(mpirun: Mpirun) -> None:
    script = {SCRIPTS / "faults/wrong_on_rank_1.py": "/wrong.py"}

    command = ("python3", "/wrong.py", "--backend=horovod", "--sizes=512,1Ki")
    run = mpirun(*command, framework="mxnet", mounts=script)

    assert run.returncode == 1
    assert "distrain: all-reduce: 1 of 256 sums are wrong on rank 1; the sum at index 7 is " in run.stderr
    assert "Traceback" not in run.stderr
    assert "is right" not in run.stdout


@pytest.mark.parametrize(
    ("backend", "starter"), [("torch", forked_of), pytest.param("horovod", mpirun_of, marks=pytest.mark.full)]
)
def test_all_reduce_of_helm_test_is_right(backend: str, starter: Callable[[int], list[str]], digits: Path) -> None:
    command = [*starter(2), "-m", "distrain_trainer.allreduce", f"--backend={backend}", "--sizes=1Ki,1Mi"]

    run = run_in_image("pytorch", command, digits, env=None, mounts=None, timeout=300)

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == f"all-reduce of float32 over 2 ranks, by {backend}"
    assert run.stdout.splitlines()[-1] == "all-reduce is right on 2 ranks: each rank got the correct sums"
    assert run.stderr == ""
