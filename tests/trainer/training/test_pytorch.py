"""Test what is specific to PyTorch: its models, and that several ranks compute the same as one rank."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from distrain_trainer.errors import SECONDS_FOR_RANK_0
from distrain_trainer.models import MODELS
from tests.matrix import one_of
from tests.trainer.conftest import (
    DIGITS_IN_IMAGE,
    SCRIPTS,
    USER_MODELS_FOLDER,
    ProgramInImage,
    Run,
    assert_refused,
    mpirun_of,
    run_in_image,
    torchrun_of,
)
from tests.trainer.fixtures import saved_state

# Raises the error that gloo raises in a rank when another rank ends.
LOSES_THE_OTHER = """
import time
from distrain_trainer.errors import LostPeerError
from distrain_trainer.pytorch.ddp import lost_ranks_named
begun = time.monotonic()
try:
    with lost_ranks_named():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41318")
except LostPeerError:
    print(time.monotonic() - begun)
"""

TURNING: dict[str, Any] = {
    "env": {"PYTHONPATH": "/models"},
    "mounts": {USER_MODELS_FOLDER / "turning.py": "/models/turning.py"},
}
# Loads a state from one model into another, and then reuses the memory of the state's arrays.
TAKEN_OVER = """
import numpy as np, torch, turning
from distrain_trainer.checkpoint.arrays import Buffer, plan
from distrain_trainer.pytorch.state import TorchState
def state_of(model):
    return TorchState(model, torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cpu", enabled=False))
here, there = (turning.net((2, 2, 1), 3) for _ in range(2))
for model in (here, there):
    model[2].to(torch.bfloat16)
there[0](torch.zeros(1))
state, buffer = state_of(there), Buffer()
state.copy(arrays := buffer.place(plan(state.fields())))
state_of(here).load(arrays)
for array in arrays.values():
    array[...] = 0
differing = [name for name, tensor in there.state_dict().items() if not torch.equal(tensor, here.state_dict()[name])]
print(differing, here[0].calls)
"""
# Loads a state from the file of a checkpoint of format 1.
TAKEN_OVER_FROM_FORMER = """
import io, torch, turning
from distrain_trainer.checkpoint.arrays import Buffer
from distrain_trainer.checkpoint.files import fields_of
from distrain_trainer.pytorch.state import TorchState
def state_of(model):
    return TorchState(model, torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cpu", enabled=False))
here, there = (turning.typed((2, 2, 1), 3) for _ in range(2))
for model in (here, there):
    model[2].to(torch.bfloat16)
optimizer, content, buffer = torch.optim.SGD(there.parameters()), io.BytesIO(), Buffer()
torch.save({"model": there.state_dict(), "optimizer": optimizer.state_dict(), "scaler": {}}, content)
state = state_of(here)
parts = buffer.fill(state.former(content.getvalue()))
state.load(buffer.arrays(parts))
fields = state.fields()
print([name for name, field in fields_of(parts).items() if name.startswith("model.") and field != fields[name]])
print([name for name, tensor in there.state_dict().items() if not torch.equal(tensor, here.state_dict()[name])])
"""
# Undoes a step that replaced buffers by others, and one that removed a buffer.
UNDONE = """
import torch, turning
from distrain_trainer.pytorch.statistics import Statistics
model = turning.replaced((2, 2, 1), 3)
statistics, images = Statistics(model), torch.zeros(1)
for is_kept in (True, False, True):
    statistics.keep()
    model[0](images)
    if not is_kept:
        statistics.restore()
print(model[0].last, {name: buffer.tolist() for name, buffer in model.named_buffers(remove_duplicate=False)})
statistics.keep()
model[0].last = None
statistics.restore()
print(model[0].last)
"""

# Prints the number of trainable parameters of each included model, and of mnist for digits of 8 x 8 pixels.
COUNT_PARAMETERS = """
from distrain_trainer.models import MODELS
from distrain_trainer.pytorch.models import build
for name, described in MODELS.items():
    model = build(name, shape=described.shape, classes=described.classes)
    print(name, sum(each.numel() for each in model.parameters()))
print("mnist of 8x8", sum(each.numel() for each in build("mnist", shape=(8, 8, 1), classes=10).parameters()))
"""

Weights = Mapping[str, npt.NDArray[np.float32]]
PROGRAMS = ["pytorch-ddp", "pytorch-horovod"]
ONE_PROGRAM = pytest.mark.parametrize("program", one_of(PROGRAMS), indirect=True)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, digits: Path) -> ProgramInImage:
    return ProgramInImage.named(request.param, digits)


def python(
    digits: Path, *arguments: str, env: Mapping[str, str] | None = None, mounts: Mapping[Path, str] | None = None
) -> Run:
    """Run python3 in PyTorch's image."""
    return run_in_image("pytorch", ["python3", *arguments], digits, env=env, mounts=mounts, timeout=300)


def test_models_have_their_published_parameters(digits: Path) -> None:
    run = python(digits, "-c", COUNT_PARAMETERS)

    expected = [f"{name} {described.parameters['pytorch']}" for name, described in MODELS.items()]
    # 3x3x1x32 + 32, 3x3x32x64 + 64, 2x2x64x128 + 128, 128x10 + 10.
    assert run.stdout.splitlines() == [*expected, "mnist of 8x8 53002"], run.stderr


# test_training.py trains TensorFlow's in each run of the tests.
@pytest.mark.full
@ONE_PROGRAM
def test_resnet50_trains(program: ProgramInImage) -> None:
    run = program("--model", "resnet50", "--steps", "2", "--batch-size", "1")

    assert run.returncode == 0, run.stderr
    assert re.search(r"^total images/sec: \d", run.stdout, re.MULTILINE)
    assert run.stderr == ""


def weights_after(
    program: ProgramInImage, folder: Path, *, ranks: int, batch_size: int, optimizer: str
) -> list[Weights]:
    """Return each rank's weights after an epoch of two steps, and after one more step."""
    folder.mkdir()
    folder.chmod(0o777)
    arguments = ["--data", DIGITS_IN_IMAGE, "--steps", "3", "--batch-size", str(batch_size), "--optimizer", optimizer]
    learning_rate = ["--learning-rate", "0.01"]

    mounts = {SCRIPTS / "weights/pytorch_weights.py": "/weights.py", folder: "/out"}
    run = program(*arguments, *learning_rate, ranks=ranks, script="/weights.py", mounts=mounts)

    assert run.returncode == 0, run.stderr
    return [dict(np.load(folder / f"end-{rank}.npz")) for rank in range(ranks)]


@pytest.mark.parametrize("optimizer", one_of(["sgd", "adam"]))
def test_two_ranks_end_where_one_with_the_whole_batch_does(
    optimizer: str, program: ProgramInImage, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    # The second step of an epoch has only the last of the 1437 digits, so the other rank has no sample.
    [alone] = weights_after(program, tmp_path / "alone", ranks=1, batch_size=1436, optimizer=optimizer)
    first, second = weights_after(program, tmp_path / "two", ranks=2, batch_size=718, optimizer=optimizer)

    own_start = [dict(np.load(tmp_path / "two" / f"start-{rank}.npz")) for rank in range(2)]
    for name, expected in alone.items():
        assert not np.array_equal(own_start[0][name], own_start[1][name])
        np.testing.assert_array_equal(first[name], second[name])
        assert not np.array_equal(expected, own_start[0][name])
        np.testing.assert_allclose(first[name], expected, rtol=1e-3, atol=1e-4)


@ONE_PROGRAM
def test_saved_weights_load_into_the_model(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    load = (
        "import torch; from distrain_trainer.pytorch.models import build; "
        "print(build('mnist', shape=(28, 28, 1), classes=10).load_state_dict(torch.load('/out/model.pt')))"
    )

    run = program("--steps", "1", "--output", "/out", mounts={tmp_path: "/out"})
    loaded = python(program.digits, "-c", load, mounts={tmp_path: "/out"})

    assert run.returncode == 0, run.stderr
    assert loaded.stdout == "<All keys matched successfully>\n", loaded.stderr


def test_one_rank_needs_nothing_to_start_it(digits: Path) -> None:
    run = python(digits, "-m", "distrain_trainer", "--framework=pytorch", "--steps=2")

    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Step\tImg/sec\ttotal_loss\n")


@pytest.mark.parametrize(
    ("env", "waits"),
    [pytest.param({"TORCHELASTIC_RUN_ID": "run"}, True, id="torchrun"), pytest.param({}, False, id="no torchrun")],
)
def test_rank_that_lost_another_waits_where_torchrun_will_end_it(
    env: Mapping[str, str], waits: bool, digits: Path
) -> None:
    run = python(digits, "-c", LOSES_THE_OTHER, env=env)

    assert run.returncode == 0, run.stderr
    assert (float(run.stdout) >= SECONDS_FOR_RANK_0) == waits


@pytest.mark.parametrize(
    ("backend", "starter"), [("torch", torchrun_of), pytest.param("horovod", mpirun_of, marks=pytest.mark.full)]
)
def test_all_reduce_of_helm_test_is_right(backend: str, starter: Callable[[int], list[str]], digits: Path) -> None:
    command = [*starter(2), "-m", "distrain_trainer.allreduce", f"--backend={backend}", "--sizes=1Ki,1Mi"]

    run = run_in_image("pytorch", command, digits, env=None, mounts=None, timeout=300)

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == f"all-reduce of float32 over 2 ranks, by {backend}"
    assert run.stdout.splitlines()[-1] == "all-reduce is right on 2 ranks"
    assert run.stderr == ""


def test_state_that_is_taken_over_is_the_models_own(digits: Path) -> None:
    run = python(digits, "-c", TAKEN_OVER, **TURNING)

    assert run.stdout == "[] tensor([1.])\n", run.stderr


def test_state_of_the_first_format_is_taken_over_in_every_type(digits: Path) -> None:
    run = python(digits, "-c", TAKEN_OVER_FROM_FORMER, **TURNING)

    assert run.stdout == "[]\n[]\n", run.stderr


@ONE_PROGRAM
def test_complex_buffers_and_tensors_of_extra_state_are_resumed(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    mounts = {**TURNING["mounts"], tmp_path: "/out"}
    arguments = ("--model=turning:net", f"--data={DIGITS_IN_IMAGE}", "--batch-size=4")
    for steps in (2, 3):
        places = ("--checkpoint=/out/run", "--checkpoint-at-end", f"--steps={steps}")
        run = program(*arguments, *places, env=TURNING["env"], mounts=mounts)
        assert run.returncode == 0, run.stdout + run.stderr

    saved = saved_state.arrays(saved_state.newest(tmp_path / "run"))
    assert "resumed from 1-16: step 2, " in run.stdout
    assert saved["model.0.angle"]["sha256"] == digest(np.array([-1j], dtype=np.complex64))
    assert saved["model.0._extra_state"]["sha256"] == digest(np.array([3], dtype=np.float32))


@ONE_PROGRAM
def test_buffers_of_every_type_are_rank_0s_and_resumed(program: ProgramInImage, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    mounts = {**TURNING["mounts"], tmp_path: "/out"}
    arguments = ("--model=turning:typed", f"--data={DIGITS_IN_IMAGE}", "--batch-size=4", "--checkpoint=/out/run")
    told = ""
    for steps in (2, 3):
        run = program(*arguments, "--checkpoint-at-end", f"--steps={steps}", env=TURNING["env"], mounts=mounts)
        assert run.returncode == 0, run.stdout + run.stderr
        told += run.stdout

    digests = re.findall(r"buffers (\w+)", told)
    assert len(digests) == 4
    assert len({*digests}) == 1
    assert "resumed from 1-16: step 2, " in told


def test_step_that_replaces_buffers_is_undone(digits: Path) -> None:
    run = python(digits, "-c", UNDONE, **TURNING)

    *steps, left, kept = run.stdout.splitlines()
    assert steps == ["seen [1.0]", "seen [1.0, 2.0]", "seen [1.0, 2.0]"], run.stderr
    assert left == "tensor([2.]) {'0.steps': [2.0], '0.seen': [1.0, 2.0], '0.last': [2.0], '0.scale': [1.0, 1.0, 1.0]}"
    assert kept == "tensor([2.])"


@ONE_PROGRAM
def test_model_that_replaces_its_buffers_trains(program: ProgramInImage) -> None:
    arguments = (f"--data={DIGITS_IN_IMAGE}", "--model=turning:replaced", "--steps=2", "--batch-size=4")

    run = program(*arguments, **TURNING)

    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("seen [1.0, 2.0]\n") == 2


def digest(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        pytest.param("counted", r"0\._extra_state in the model's state_dict\(\) is of type int, and a", id="no-tensor"),
        pytest.param(
            "phased",
            r"the weight 0\.phase is of type complex64, and gradients are averaged",
            id="complex",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "expanded",
            r"0\.mean in the model's state_dict\(\) is made by expand\(\)",
            id="shared-memory",
            marks=pytest.mark.full,
        ),
    ],
)
@ONE_PROGRAM
def test_state_that_cannot_be_kept_ends_the_run_before_its_first_step(
    program: ProgramInImage, model: str, said: str
) -> None:
    run = program(f"--model=turning:{model}", "--steps=2", "--batch-size=2", "--image-size=4", **TURNING)

    assert_refused(run, rf"trainer\.model: {said}")
    assert "images/sec" not in run.stdout


@ONE_PROGRAM
def test_outcome_that_is_read_a_step_later_changes_nothing(program: ProgramInImage, tmp_path: Path) -> None:
    # One step is left out, and restores the statistics of batch normalization.
    usual, behind = (
        train_with_a_bad_batch(program, tmp_path / name, *more) for name, *more in (("at-once",), ("later", "--ahead"))
    )

    assert "step 11 is left out" in behind.stdout
    logged = [re.findall(r"^(\d+)\timages/sec.*\t(.*)$", run.stdout, re.MULTILINE) for run in (usual, behind)]
    assert logged[0] == logged[1]
    assert [step for step, _ in logged[0]] == ["5", "10", "15", "20"]
    saved = [saved_state.arrays(saved_state.newest(tmp_path / name)) for name in ("at-once", "later")]
    assert saved[0] == saved[1]
    assert any("running_mean" in name for name in saved[0])


def train_with_a_bad_batch(program: ProgramInImage, folder: Path, *more: str) -> Run:
    folder.mkdir()
    folder.chmod(0o777)
    scripts = {SCRIPTS / "faults" / name: f"/{name}" for name in ("bad_batch.py", "step_behind.py")}
    run = program(
        *(f"--data={DIGITS_IN_IMAGE}", "--model=normalized:net", "--steps=20", "--log-every=5", "--deterministic"),
        *("--checkpoint=/out", "--checkpoint-at-end", *more),
        script="/step_behind.py",
        env={"PYTHONPATH": "/models"},
        mounts={USER_MODELS_FOLDER: "/models", **scripts, folder: "/out"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run
