"""Trainings that are killed at random, and the unbroken ones that they are held against; on loopback, in the image."""

from __future__ import annotations

import json
import random
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.paths import CHART
from lab.s3.proxy import Fault, proxy_before
from lab.s3.server import Server
from tests.trainer.conftest import DIGITS_IN_IMAGE, PROGRAMS, SCRIPTS, Run, run_in_image
from tests.trainer.fixtures import saved_state

BATCH_SIZE = 32
# So many steps a kill takes at most: ten are not logged after a start, and after some more comes the next one.
STEPS_PER_KILL, STEPS_BESIDES = 32, 30
# The ranks outlive mpirun by a second, and train on meanwhile.
STEPS_WITHOUT_MPIRUN = 100
MOST_LINES = 10
# One in so many kills comes while the run is about to start again.
STARTS = 5
# torchrun keeps one store for all starts else, in which ranks find the addresses of those that have died.
AS_IN_THE_CHART = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@dataclass(frozen=True)
class Case:
    """A program and its number of ranks."""

    name: str
    ranks: int

    @property
    def victims(self) -> list[str]:
        """The processes that are killed, by killed.py's names."""
        part, *others = PARTS[self.name]
        return [*(f"{part} {rank}" for rank in range(self.ranks)), *others]

    def __str__(self) -> str:
        return f"{self.name}, {self.ranks} ranks"


UNDER_MPIRUN = ("rank", "mpirun", "orted")
# What each rank of a program is called, and the other processes of its job.
PARTS = {
    "tensorflow-horovod": UNDER_MPIRUN,
    "pytorch-ddp": ("rank", "torchrun"),
    "pytorch-horovod": UNDER_MPIRUN,
    "mxnet-horovod": UNDER_MPIRUN,
    "mxnet-kvstore": ("worker", "server 0", "scheduler 0"),
    "tensorflow-ps": ("worker", "ps 0", "chief 0"),
}
CASES = [
    Case("tensorflow-horovod", 2),
    Case("tensorflow-horovod", 3),
    Case("pytorch-ddp", 2),
    Case("pytorch-ddp", 3),
    Case("pytorch-horovod", 2),
    Case("mxnet-horovod", 2),
    # A server adds up what comes in the order in which it comes: of two the sum is the same.
    Case("mxnet-kvstore", 2),
    # Workers change the servers' weights each in its own time: only one alone does so in the same order again.
    Case("tensorflow-ps", 1),
]
Plan = list[tuple[str, int, float]]


@dataclass(frozen=True)
class Place:
    """Where a training reads its data and saves: in folders, or in S3."""

    data: str = DIGITS_IN_IMAGE
    checkpoints: str = "/out/checkpoints"
    env: Mapping[str, str] = field(default_factory=dict)
    fetch: Callable[[Path], None] = lambda folder: None
    """Copies the checkpoints into a folder, where they are not there already."""


IN_FOLDERS = Place()


@contextmanager
def in_faulty_s3(server: Server, digits: Path, fault: dict[str, Fault]) -> Iterator[Place]:
    """Put the digits into a bucket of their own, behind a proxy that does something to requests all along."""
    client, bucket = server.boto3_client(), f"chaos-{time.monotonic_ns()}"
    client.create_bucket(Bucket=bucket)
    for path in digits.iterdir():
        client.upload_file(str(path), bucket, f"digits/{path.name}")

    def fetch(folder: Path) -> None:
        for entry in client.list_objects_v2(Bucket=bucket, Prefix="saved/")["Contents"]:
            path = folder / entry["Key"].removeprefix("saved/")
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(bucket, entry["Key"], str(path))

    with proxy_before(server.endpoint) as proxy:
        proxy.set(**fault)
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        env = {"AWS_ENDPOINT_URL_S3": proxy.endpoint, "AWS_REGION": "us-east-1", **keys}
        yield Place(f"s3://{bucket}/digits", f"s3://{bucket}/saved", env, fetch)


@dataclass(frozen=True)
class Kill:
    """What killed.py says of one."""

    victim: str
    lines: int
    share: float
    at: float
    last_step: int
    step_seconds: float
    resumed_step: int | None
    seconds_to_step: float | None


@dataclass(frozen=True)
class Outcome:
    """What came of a training; `state` has a digest of each array of its last checkpoint, the optimizer's included."""

    run: Run
    weights: bytes
    state: Mapping[str, Mapping[str, object]]
    cold_start: float
    kills: list[Kill]


def random_plan(case: Case, kills: int, chance: random.Random) -> Plan:
    """Return so many kills, each of a victim and at a moment that are as likely as any other."""

    def lines(number: int) -> int:
        return 0 if number and chance.randrange(STARTS) == 0 else chance.randint(1, MOST_LINES)

    return [(chance.choice(case.victims), lines(number), round(chance.random(), 3)) for number in range(kills)]


def steps_for(plan: Plan) -> int:
    """Return how many steps a training needs for all kills of the plan."""
    without_mpirun = sum(STEPS_WITHOUT_MPIRUN for victim, _, _ in plan if victim == "mpirun")
    return STEPS_BESIDES + STEPS_PER_KILL * len(plan) + without_mpirun


def train(
    case: Case, plan: Plan, *, steps: int, every: float, folder: Path, digits: Path, place: Place = IN_FOLDERS
) -> Outcome:
    """Train to the end, with the plan's kills on the way. What is written goes to a folder that is made."""
    folder.mkdir()
    folder.chmod(0o777)
    program = PROGRAMS[case.name]
    command = [*started(case), *program.arguments, "--data", place.data, "--batch-size", str(BATCH_SIZE)]
    command += ["--steps", str(steps), "--log-every", "1", "--deterministic"]
    command += ["--checkpoint", place.checkpoints, "--checkpoint-every", str(every)]
    command += ["--checkpoint-at-end", "--output", "/out"]
    run = run_in_image(
        program.framework,
        ["python3", "/killed.py", json.dumps(plan), str(case.ranks), *command],
        digits,
        env={**AS_IN_THE_CHART, **place.env},
        mounts={SCRIPTS / "killed.py": "/killed.py", CHART / "files": "/opt/distrain/bin", folder: "/out"},
        timeout=120 + 60 * (len(plan) + 1),
    )
    if run.returncode:
        return Outcome(run, b"", {}, 0, [])
    place.fetch(folder / "checkpoints")
    state = saved_state.arrays(saved_state.newest(folder / "checkpoints"))
    told = json.loads(run.stdout.splitlines()[-1].removeprefix("chaos: "))
    return Outcome(run, weights_in(folder), state, told["cold_start"], [Kill(**kill) for kill in told["kills"]])


def started(case: Case) -> list[str]:
    """Return what starts the ranks: distrain-launch's part is added inside."""
    module = ["-m", "distrain_trainer"]
    in_each_pod = ["/opt/distrain/bin/distrain-run", "--max-restarts=1000", "--restart-window=1", "--", "python3"]
    if case.name == "mxnet-kvstore":
        return ["python3", "/mxjob.py", str(case.ranks), "1", "wait", *in_each_pod, *module]
    if case.name == "tensorflow-ps":
        return ["python3", "/tfjob.py", str(case.ranks), "1", *in_each_pod, *module]
    if case.name == "pytorch-ddp":
        # As in the chart, but for so many restarts, at a port of its own.
        options = [
            "--standalone",
            "--local-addr=127.0.0.1",
            f"--nproc-per-node={case.ranks}",
            "--max-restarts=1000",
            "--monitor-interval=1",
        ]
        return ["torchrun", *options, *module]
    # The ranks of one worker outnumber its processors: they must not be bound to one, nor wait for each other busily.
    # As in the chart, mpirun does not wait 2 s for those that it ends.
    options = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "odls_base_sigkill_timeout", "0"]
    return ["mpirun", *options, "--", "python3", *module]


def weights_in(folder: Path) -> bytes:
    """Return the weights that a run has left, less the date that Keras writes beside them."""
    for name in ("model.pt", "model.params"):
        if (folder / name).exists():
            return (folder / name).read_bytes()
    with zipfile.ZipFile(folder / "model.keras") as model:
        return model.read("model.weights.h5")
