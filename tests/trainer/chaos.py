"""Run a training whose processes are killed at random times. The tests compare it with an uninterrupted training."""

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
from tests.trainer.programs.jobs.killed import Kill

BATCH_SIZE = 32
# A run has STEPS_PER_KILL steps for each kill, and STEPS_BESIDES more steps. After each start, the first ten steps are
# not logged.
STEPS_PER_KILL, STEPS_BESIDES = 32, 30
# After mpirun is killed, the ranks train on for a second, in which they make at most STEPS_WITHOUT_MPIRUN steps.
STEPS_WITHOUT_MPIRUN = 100
MOST_LINES = 10
# On average, one in STARTS kills happens during a restart.
STARTS = 5
# Without this variable, torchrun keeps its TCP store over all restarts, and new ranks read the addresses of dead ranks
# from it.
AS_IN_THE_CHART = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


@dataclass(frozen=True)
class Case:
    """A program and its number of ranks."""

    name: str
    ranks: int

    @property
    def victims(self) -> list[str]:
        """The names of the processes that may be killed, as killed.py uses them."""
        part, *others = PARTS[self.name]
        return [*(f"{part} {rank}" for rank in range(self.ranks)), *others]

    def __str__(self) -> str:
        return f"{self.name}, {self.ranks} ranks"


UNDER_MPIRUN = ("rank", "mpirun", "orted")
# PARTS maps a program to the name of its ranks and to the names of the job's other processes.
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
    # The server adds up the gradients in the order in which they arrive. With only two workers, this order does not
    # change the sum.
    Case("mxnet-kvstore", 2),
    # The workers update the weights on the servers asynchronously. With more than one worker, the order of these
    # updates would differ from run to run.
    Case("tensorflow-ps", 1),
]
Plan = list[tuple[str, int, float]]


@dataclass(frozen=True)
class Place:
    """The folders or S3 URIs of a training's data and checkpoints."""

    data: str = DIGITS_IN_IMAGE
    checkpoints: str = "/out/checkpoints"
    env: Mapping[str, str] = field(default_factory=dict)
    fetch: Callable[[Path], None] = lambda folder: None
    """Copies the checkpoints into a folder, where they are not there already."""


IN_FOLDERS = Place()


@contextmanager
def in_faulty_s3(server: Server, digits: Path, fault: dict[str, Fault]) -> Iterator[Place]:
    """Upload the digits to a new bucket. A proxy in front of the server injects `fault` into requests all the time."""
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
        env = server.client_environment(proxy.endpoint)
        yield Place(f"s3://{bucket}/digits", f"s3://{bucket}/saved", env, fetch)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a training. `state` contains the type, shape and digest of each array in the last checkpoint."""

    run: Run
    weights: bytes
    state: Mapping[str, Mapping[str, object]]
    cold_start: float
    kills: list[Kill]


def random_plan(case: Case, kills: int, chance: random.Random) -> Plan:
    """Return a plan of `kills` kills, each of a random process at a random time."""

    def lines(number: int) -> int:
        return 0 if number and chance.randrange(STARTS) == 0 else chance.randint(1, MOST_LINES)

    return [(chance.choice(case.victims), lines(number), round(chance.random(), 3)) for number in range(kills)]


def steps_for(plan: Plan) -> int:
    """Return the number of steps after which all kills of the plan have happened at the latest."""
    without_mpirun = sum(STEPS_WITHOUT_MPIRUN for victim, _, _ in plan if victim == "mpirun")
    return STEPS_BESIDES + STEPS_PER_KILL * len(plan) + without_mpirun


def train(
    case: Case, plan: Plan, *, steps: int, every: float, folder: Path, digits: Path, place: Place = IN_FOLDERS
) -> Outcome:
    """Train to the end, and kill processes as the plan says. Create `folder` for the output of the training."""
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
        mounts={SCRIPTS / "jobs/killed.py": "/killed.py", CHART / "files": "/opt/distrain/bin", folder: "/out"},
        timeout=300 + 60 * (len(plan) + 1),
    )
    if run.returncode:
        return Outcome(run, b"", {}, 0, [])
    place.fetch(folder / "checkpoints")
    state = saved_state.arrays(saved_state.newest(folder / "checkpoints"))
    told = json.loads(run.stdout.splitlines()[-1].removeprefix("chaos: "))
    return Outcome(run, weights_in(folder), state, told["cold_start"], [Kill(**kill) for kill in told["kills"]])


def started(case: Case) -> list[str]:
    """Return the command that starts the ranks.

    If this command contains mpirun, killed.py puts distrain-launch in front of it.
    """
    module = ["-m", "distrain_trainer"]
    in_each_pod = ["/opt/distrain/bin/distrain-run", "--max-restarts=1000", "--restart-window=1", "--", "python3"]
    if case.name == "mxnet-kvstore":
        return ["python3", "/mxjob.py", str(case.ranks), "1", "wait", *in_each_pod, *module]
    if case.name == "tensorflow-ps":
        return ["python3", "/tfjob.py", str(case.ranks), "1", *in_each_pod, *module]
    if case.name == "pytorch-ddp":
        # The options are the chart's, with two exceptions: more restarts are allowed, and --standalone chooses a free
        # port.
        options = [
            "--standalone",
            "--local-addr=127.0.0.1",
            f"--nproc-per-node={case.ranks}",
            "--max-restarts=1000",
            "--monitor-interval=1",
        ]
        return ["torchrun", *options, *module]
    # The machine has fewer processors than the job has ranks, so do not bind ranks to processors, and do not wait in
    # busy loops. As in the chart, mpirun sends SIGKILL to its ranks immediately instead of after 2 s.
    options = ["--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "--mca", "odls_base_sigkill_timeout", "0"]
    return ["mpirun", *options, "--", "python3", *module]


def weights_in(folder: Path) -> bytes:
    """Return the bytes of the weights that a run has written. The date in Keras' files is left out."""
    for name in ("model.pt", "model.params"):
        if (folder / name).exists():
            return (folder / name).read_bytes()
    with zipfile.ZipFile(folder / "model.keras") as model:
        return model.read("model.weights.h5")
