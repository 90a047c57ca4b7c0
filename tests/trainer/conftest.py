"""Run the trainer's programs inside their images, with the code of the working tree.

Also provide an S3 server that contains digits.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.builds.trainer import run_trainer
from lab.datasets.digits import write_digits
from lab.waiting import free_port
from tests.matrix import leave_each_to_one
from tests.trainer.fixtures.left_threads import ended_threads

__all__ = ["ended_threads"]

DIGITS_IN_IMAGE = "/data/digits"
# Without these variables, programs print warnings: torchrun warns that it sets one thread per rank, and gloo that it
# looks up the host name.
OF_THIS_MACHINE = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
# These scripts run inside the images. Those in jobs/ start processes, and each of the others replaces the program of a
# rank.
SCRIPTS = Path(__file__).parent / "programs"
USER_MODELS_FOLDER = Path(__file__).parent / "user_models"

Run = subprocess.CompletedProcess[str]
# A function that gets a number of ranks, and returns the beginning of a command. The command starts each rank as
# python3, with the arguments that a test appends to the command.
Starter = Callable[[int], list[str]]


def mpirun_of(ranks: int, bind_to: str = "none") -> list[str]:
    # A small machine has fewer cores than the job has ranks, so do not bind ranks to cores, and do not wait in busy
    # loops.
    options = ["--bind-to", bind_to, "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    return ["mpirun", "-np", str(ranks), *options, "python3"]


def torchrun_of(ranks: int) -> list[str]:
    # Choose a free port, because torchrun's default port would be the same in two tests that run at the same time.
    return ["torchrun", f"--master-port={free_port()}", f"--nproc-per-node={ranks}", "--no-python", "python3"]


def forked_of(ranks: int) -> list[str]:
    """Start ranks of PyTorch as forks of one process, so that PyTorch is imported only once."""
    return ["python3", "/forked.py", str(ranks), "python3"]


def alone_of(ranks: int) -> list[str]:
    """Start a single rank of PyTorch, without torchrun."""
    assert ranks == 1
    return ["python3"]


def tfjob_of(workers: int) -> list[str]:
    return ["python3", "/tfjob.py", str(workers), str(min(2, workers)), "python3"]


def forked_tfjob_of(workers: int) -> list[str]:
    """Start the processes of a TFJob as forks of one process, so that TensorFlow is imported only once."""
    return [*tfjob_of(workers)[:2], "--forked", *tfjob_of(workers)[2:]]


def mxjob_of(workers: int, servers: int = 1, after_failure: str = "end") -> list[str]:
    return ["python3", "/mxjob.py", str(workers), str(servers), after_failure, "python3"]


@dataclass(frozen=True)
class Program:
    """A program of the trainer.

    `framework` determines the image, and `arguments` determine the program. `model` is the file name of the saved
    model.
    """

    framework: str
    arguments: tuple[str, ...]
    starter: Starter
    model: str


# All programs must behave in the same way, so a test with the fixture `program` runs once per program.
PROGRAMS = {
    "tensorflow-horovod": Program("tensorflow", ("--framework=tensorflow",), mpirun_of, "model.keras"),
    "tensorflow-ps": Program(
        "tensorflow", ("--framework=tensorflow", "--strategy=parameter-server"), tfjob_of, "model.keras"
    ),
    "pytorch-ddp": Program("pytorch", ("--framework=pytorch",), torchrun_of, "model.pt"),
    "pytorch-horovod": Program("pytorch", ("--framework=pytorch",), mpirun_of, "model.pt"),
    "mxnet-horovod": Program("mxnet", ("--framework=mxnet",), mpirun_of, "model.params"),
    "mxnet-kvstore": Program("mxnet", ("--framework=mxnet", "--strategy=parameter-server"), mxjob_of, "model.params"),
}

# Starters that import the framework only once for all processes. They are for tests in which it does not matter how the
# processes are started.
FORKED: dict[str, Starter] = {"pytorch-ddp": forked_of, "tensorflow-ps": forked_tfjob_of}

# The program that starts fastest. It runs the tests of the code that all programs share. The other programs import
# PyTorch or TensorFlow, which takes longer, or their jobs consist of more processes.
FASTEST = "mxnet-horovod"

# The source of a user's model for each framework. Tests write it as small.py into a folder on PYTHONPATH.
USER_MODELS = {
    "tensorflow": """
from tensorflow.keras import Sequential, layers

def net(shape, classes):
    return Sequential([layers.Input(shape), layers.Flatten(), layers.Dense(classes)])

def wrong_classes(shape, classes):
    return net(shape, classes + 1)
""",
    "pytorch": """
from torch import nn

def net(shape, classes):
    height, width, channels = shape
    return nn.Sequential(nn.Flatten(), nn.Linear(height * width * channels, classes))

def wrong_classes(shape, classes):
    return net(shape, classes + 1)
""",
    "mxnet": """
from mxnet.gluon import nn

def net(shape, classes):
    model = nn.HybridSequential()
    model.add(nn.Flatten(), nn.Dense(classes))
    return model

def wrong_classes(shape, classes):
    return net(shape, classes + 1)
""",
}


@dataclass(frozen=True)
class Mpirun:
    """Runs a command as a number of ranks, in the image of a framework on this machine."""

    digits: Path

    def __call__(
        self,
        *argv: str,
        framework: str = "tensorflow",
        ranks: int = 2,
        env: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        timeout: int = 300,
    ) -> Run:
        command = [*mpirun_of(ranks)[:-1], *argv]
        return run_in_image(framework, command, self.digits, env=env, mounts=mounts, timeout=timeout)


@dataclass(frozen=True)
class ProgramInImage:
    """Runs a number of ranks of `python3 -m distrain_trainer`, with the arguments of a program and further ones."""

    name: str
    program: Program
    digits: Path

    @classmethod
    def named(cls, name: str, digits: Path) -> ProgramInImage:
        return cls(name, PROGRAMS[name], digits)

    def __call__(
        self,
        *arguments: str,
        ranks: int = 2,
        env: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        timeout: int = 240,
        script: str | None = None,
        starter: Starter | None = None,
    ) -> Run:
        what = [script] if script else ["-m", "distrain_trainer"]
        command = [*(starter or self.program.starter)(ranks), *what, *self.program.arguments, *arguments]
        return run_in_image(self.program.framework, command, self.digits, env=env, mounts=mounts, timeout=timeout)


def run_in_image(
    framework: str,
    command: Sequence[str],
    digits: Path,
    *,
    env: Mapping[str, str] | None,
    mounts: Mapping[Path, str] | None,
    timeout: int,
) -> Run:
    starters = {SCRIPTS / "jobs" / name: f"/{name}" for name in ("tfjob.py", "mxjob.py", "forked.py")}
    return run_trainer(
        framework,
        command,
        env={**OF_THIS_MACHINE, **(env or {})},
        mounts={digits: DIGITS_IN_IMAGE, **starters, **(mounts or {})},
        timeout=timeout,
    )


def assert_refused(run: Run, message: str, *, code: int | tuple[int, ...] = 2) -> None:
    """Assert that a run has ended with exactly one error line, and that this line matches `message`."""
    lines = [line for line in run.stderr.splitlines() if line.startswith("distrain: ")]
    by_torchrun = "torchrun" in run.args
    # torchrun exits with 1, whatever the exit code of the rank is. torchrun also prints its own traceback, in which it
    # repeats the line of the rank.
    codes = (1,) if by_torchrun else code if isinstance(code, tuple) else (code,)
    assert run.returncode in codes, run.stderr
    assert len(lines) == 1, run.stderr
    assert re.match(f"distrain: {message}", lines[0]), lines[0]
    assert run.stderr.startswith("distrain: ")
    assert run.stderr.count("Traceback") == (1 if by_torchrun else 0)
    assert not by_torchrun or f"  traceback : {lines[0]}\n" in run.stderr


@pytest.hookimpl(tryfirst=True)  # Run this hook before pytest deselects tests by their marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By default, a test that is marked `shared` runs only with the fastest program."""
    leave_each_to_one(items, "shared", "program", [FASTEST])


@pytest.fixture(scope="session")
def mpirun(digits: Path) -> Mpirun:
    return Mpirun(digits)


def tried_by(*names: str) -> pytest.MarkDecorator:
    """Run a test with the fixture `program` for these programs.

    In the full matrix, run it for the other programs too.
    """
    params = [pytest.param(name, marks=[] if name in names else pytest.mark.full) for name in PROGRAMS]
    return pytest.mark.parametrize("program", params, indirect=True)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, digits: Path) -> ProgramInImage:
    """Each program of the trainer, one after the other."""
    return ProgramInImage.named(request.param, digits)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    folder.chmod(0o755)  # In the image, the trainer runs as another user, who must be able to read the files.
    write_digits(folder)
    return folder


@pytest.fixture(scope="session")
def digits_uri(digits: Path, s3_server: Any) -> str:
    """The URI of the digits on the S3 server."""
    client = s3_server.boto3_client()
    client.create_bucket(Bucket="datasets")
    for path in digits.iterdir():
        client.upload_file(str(path), "datasets", f"digits/{path.name}")
    return "s3://datasets/digits"


@pytest.fixture
def s3_env(s3_server: Any) -> dict[str, str]:
    """The environment variables by which the chart passes the S3 settings to a pod."""
    environment: dict[str, str] = s3_server.client_environment()
    return environment
