"""Test what only PyTorch has: its models. Also test that several ranks have the same result as one rank."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
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
    FORKED,
    SCRIPTS,
    USER_MODELS_FOLDER,
    ProgramInImage,
    Run,
    alone_of,
    assert_refused,
    run_in_image,
)
from tests.trainer.fixtures import saved_state

# Script that raises gloo's error for a rank that has lost another rank.
LOSES_THE_OTHER = """
import os, time
from unittest.mock import patch
from distrain_trainer.errors import LostPeerError
from distrain_trainer.pytorch.ddp import lost_ranks_named
begun = time.monotonic()
try:
    with patch.dict(os.environ, {env}), lost_ranks_named():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:41318")
except LostPeerError:
    print(time.monotonic() - begun)
"""

TURNING: dict[str, Any] = {
    "env": {"PYTHONPATH": "/models"},
    "mounts": {USER_MODELS_FOLDER / "turning.py": "/models/turning.py"},
}
# Script that loads the state of one model into another model, and then overwrites the memory from which it was loaded.
TAKEN_OVER = """
import numpy as np, torch, turning
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.layout import plan
from distrain_trainer.pytorch.state import TorchState
def state_of(model):
    return TorchState(model, torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cpu", enabled=False))
here, there = (turning.net((2, 2, 1), 3) for _ in range(2))
for model in (here, there):
    model[2].to(torch.bfloat16)
there[0](torch.zeros(1))
state, buffer = state_of(there), Buffer()
state.copy(arrays := buffer.place(plan(state.fields())), {})
state_of(here).load(arrays)
for array in arrays.values():
    array[...] = 0
differing = [name for name, tensor in there.state_dict().items() if not torch.equal(tensor, here.state_dict()[name])]
print(differing, here[0].calls)
"""
# Script that loads a state from a checkpoint file in format 1.
TAKEN_OVER_FROM_FORMER = """
import io, torch, turning
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.layout import fields_of
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
# Script that undoes two steps. One of them has replaced buffers, and the other has removed a buffer.
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

# Script that prints the number of trainable parameters of each built-in model, and of mnist for images of 8 x 8 pixels.
COUNT_PARAMETERS = """
import torch
from distrain_trainer.models import MODELS
from distrain_trainer.pytorch.models import build
with torch.device("meta"):  # The weights are described, and not computed.
    for name, described in MODELS.items():
        model = build(name, shape=described.shape, classes=described.classes)
        print(name, sum(each.numel() for each in model.parameters()))
    print("mnist of 8x8", sum(each.numel() for each in build("mnist", shape=(8, 8, 1), classes=10).parameters()))
"""

# Script that seeds several steps on a machine without a GPU. It prints two results: how many calls PyTorch queues until
# CUDA is initialized, and whether the same seed gives the same numbers.
SEEDS = """
import torch
from distrain_trainer.pytorch.training import Computer
computer, numbers, stored = Computer(torch.device("cpu"), torch.float32), [], len(torch.cuda._queued_calls)
for seed in (1, 2, 1):
    computer.seed(seed)
    numbers.append(torch.rand(1).item())
print(len(torch.cuda._queued_calls) - stored, numbers[0] == numbers[2] != numbers[1])
"""

# The argument of this script is a JSON object that maps names to scripts. It runs each of these scripts, and prints
# their outputs as JSON.
RUN_EACH = """
import contextlib, io, json, sys, traceback
printed = {}
for name, script in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(script, {})
        except Exception:
            traceback.print_exc(file=out)
    printed[name] = out.getvalue()
print(json.dumps(printed))
"""
SCRIPTS_TO_RUN = {
    "taken over": TAKEN_OVER,
    "taken over from former": TAKEN_OVER_FROM_FORMER,
    "undone": UNDONE,
    "counted": COUNT_PARAMETERS,
    "seeds": SEEDS,
    "lost under torchrun": LOSES_THE_OTHER.format(env={"TORCHELASTIC_RUN_ID": "run"}),
    "lost without torchrun": LOSES_THE_OTHER.format(env={}),
}

Weights = Mapping[str, npt.NDArray[np.float32]]
PROGRAMS = ["pytorch-ddp", "pytorch-horovod"]
# By default, code that both programs share is tested under mpirun. It starts faster than torchrun, which also imports
# PyTorch itself.
ONE_PROGRAM = pytest.mark.parametrize("program", one_of(["pytorch-horovod", "pytorch-ddp"]), indirect=True)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, digits: Path) -> ProgramInImage:
    return ProgramInImage.named(request.param, digits)


@pytest.fixture(scope="module")
def printed(digits: Path) -> Mapping[str, str]:
    """The output of each script. A single process runs all scripts, because importing PyTorch takes seconds."""
    command = ["python3", "-c", RUN_EACH, json.dumps(SCRIPTS_TO_RUN)]
    run = run_in_image("pytorch", command, digits, **TURNING, timeout=300)
    assert run.returncode == 0, run.stderr
    each: dict[str, str] = json.loads(run.stdout)
    return each


def test_models_have_their_published_parameters(printed: Mapping[str, str]) -> None:
    expected = [f"{name} {described.parameters['pytorch']}" for name, described in MODELS.items()]
    # The terms are the weights and biases of the layers: 3x3x1x32 + 32, 3x3x32x64 + 64, 2x2x64x128 + 128, 128x10 + 10.
    assert printed["counted"].splitlines() == [*expected, "mnist of 8x8 53002"]


# With a single rank, a program can also be started without mpirun and torchrun.
@pytest.fixture(scope="module", params=one_of(["nothing", "pytorch-horovod", "pytorch-ddp"]))
def resnet50(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with one rank that writes its model, and then loads the written weights into a new model."""
    starter, name = (alone_of, "pytorch-ddp") if request.param == "nothing" else (None, request.param)
    out = tmp_path_factory.mktemp("resnet50")
    out.chmod(0o777)
    return ProgramInImage.named(name, digits)(
        *("--model=resnet50", "--steps=2", "--batch-size=1", "--output=/out"),
        ranks=1,
        starter=starter,
        script="/loaded_again.py",
        mounts={SCRIPTS / "weights/loaded_again.py": "/loaded_again.py", out: "/out"},
    )


def test_resnet50_trains(resnet50: Run) -> None:
    assert resnet50.returncode == 0, resnet50.stderr
    assert resnet50.stdout.startswith("Step\tImg/sec\ttotal_loss\n")
    assert re.search(r"^total images/sec: \d", resnet50.stdout, re.MULTILINE)
    assert resnet50.stderr == ""


def test_saved_weights_load_into_the_model(resnet50: Run) -> None:
    assert resnet50.stdout.splitlines()[-1] == "<All keys matched successfully>", resnet50.stderr


def weights_after(
    program: ProgramInImage, folder: Path, *, ranks: int, batch_size: int, optimizer: str
) -> list[Weights]:
    """Train for an epoch of two steps and for one more step, and return the weights of each rank."""
    folder.mkdir()
    folder.chmod(0o777)
    arguments = ["--data", DIGITS_IN_IMAGE, "--steps", "3", "--batch-size", str(batch_size), "--optimizer", optimizer]
    learning_rate = ["--learning-rate", "0.01"]

    mounts = {SCRIPTS / "weights/pytorch_weights.py": "/weights.py", folder: "/out"}
    starter = FORKED.get(program.name)
    run = program(*arguments, *learning_rate, ranks=ranks, starter=starter, script="/weights.py", mounts=mounts)

    assert run.returncode == 0, run.stderr
    return [dict(np.load(folder / f"end-{rank}.npz")) for rank in range(ranks)]


@dataclass(frozen=True)
class Alone:
    """The weights after a run with one rank. On two ranks, both programs must reach the same weights."""

    optimizer: str
    weights: Weights


@pytest.fixture(scope="module", params=one_of(["sgd", "adam"]))
def alone(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    program, folder = ProgramInImage.named("pytorch-horovod", digits), tmp_path_factory.mktemp("alone")
    [weights] = weights_after(program, folder / "one", ranks=1, batch_size=1436, optimizer=request.param)
    return Alone(request.param, weights)


# In `make test`, this test runs only with DistributedDataParallel. test_training.py tests Horovod with TensorFlow.
@pytest.mark.parametrize("program", one_of(["pytorch-ddp", "pytorch-horovod"]), indirect=True)
def test_two_ranks_end_where_one_with_the_whole_batch_does(
    alone: Alone, program: ProgramInImage, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    # An epoch has two steps. For the second one, only one of the 1437 digits is left, so one of the two ranks has no
    # sample.
    first, second = weights_after(program, tmp_path / "two", ranks=2, batch_size=718, optimizer=alone.optimizer)

    own_start = [dict(np.load(tmp_path / "two" / f"start-{rank}.npz")) for rank in range(2)]
    for name, expected in alone.weights.items():
        assert not np.array_equal(own_start[0][name], own_start[1][name])
        np.testing.assert_array_equal(first[name], second[name])
        assert not np.array_equal(expected, own_start[0][name])
        np.testing.assert_allclose(first[name], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        pytest.param("lost under torchrun", True, id="torchrun"),
        pytest.param("lost without torchrun", False, id="no torchrun"),
    ],
)
def test_rank_that_lost_another_waits_where_torchrun_will_end_it(
    name: str, waits: bool, printed: Mapping[str, str]
) -> None:
    assert (float(printed[name]) >= SECONDS_FOR_RANK_0) == waits


def test_state_that_is_taken_over_is_the_models_own(printed: Mapping[str, str]) -> None:
    assert printed["taken over"] == "[] tensor([1.])\n"


def test_state_of_the_first_format_is_taken_over_in_every_type(printed: Mapping[str, str]) -> None:
    assert printed["taken over from former"] == "[]\n[]\n"


@dataclass(frozen=True)
class Resumed:
    """The log and the last checkpoint of a run of two ranks, stopped after two steps and resumed for a third."""

    log: str
    saved: Mapping[str, Mapping[str, Any]]


# `make test` tries only pytorch-ddp, because DistributedDataParallel itself also changes buffers.
@pytest.fixture(scope="module", params=one_of(PROGRAMS))
def resumed(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    """A resumed run of a model that has every kind of state. Several tests share this run."""
    program, folder, log = ProgramInImage.named(request.param, digits), tmp_path_factory.mktemp("resumed"), ""
    folder.chmod(0o777)
    mounts = {**TURNING["mounts"], folder: "/out"}
    arguments = ("--model=turning:every", f"--data={DIGITS_IN_IMAGE}", "--batch-size=4", "--checkpoint=/out/run")
    starter, in_image = FORKED.get(program.name), {"env": TURNING["env"], "mounts": mounts}
    for steps in (2, 3):
        run = program(*arguments, "--checkpoint-at-end", f"--steps={steps}", starter=starter, **in_image)
        assert run.returncode == 0, run.stdout + run.stderr
        log += run.stdout
    assert "resumed from 1-16: step 2, " in log
    return Resumed(log, saved_state.arrays(saved_state.newest(folder / "run")))


def test_complex_buffers_and_tensors_of_extra_state_are_resumed(resumed: Resumed) -> None:
    assert resumed.saved["model.0.angle"]["sha256"] == digest(np.array([-1j], dtype=np.complex64))
    assert resumed.saved["model.0._extra_state"]["sha256"] == digest(np.array([3], dtype=np.float32))


def test_buffers_of_every_type_are_rank_0s_and_resumed(resumed: Resumed) -> None:
    digests = re.findall(r"buffers (\w+)", resumed.log)
    assert len(digests) == 4
    assert len({*digests}) == 1


def test_step_that_replaces_buffers_is_undone(printed: Mapping[str, str]) -> None:
    *steps, left, kept = printed["undone"].splitlines()
    assert steps == ["seen [1.0]", "seen [1.0, 2.0]", "seen [1.0, 2.0]"], printed["undone"]
    assert left == "tensor([2.]) {'0.steps': [2.0], '0.seen': [1.0, 2.0], '0.last': [2.0], '0.scale': [1.0, 1.0, 1.0]}"
    assert kept == "tensor([2.])"


def test_model_that_replaces_its_buffers_trains(resumed: Resumed) -> None:
    assert resumed.log.count("seen [1.0, 2.0]\n") == 2


def digest(array: npt.NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        pytest.param("counted", r"0\._extra_state in the model's state_dict\(\) is of type int, and a", id="no-tensor"),
        pytest.param(
            "phased",
            r"the weight 0\.phase is of type complex64, but gradients are averaged",
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
    run = program(f"--model=turning:{model}", "--steps=2", "--batch-size=2", "--image-size=4", ranks=1, **TURNING)

    assert_refused(run, rf"trainer\.model: {said}")
    assert "images/sec" not in run.stdout


@pytest.mark.parametrize("program", one_of(PROGRAMS), indirect=True)
@pytest.mark.parametrize("ranks", one_of([1, 2]))
def test_outcome_that_is_read_a_step_later_changes_nothing(program: ProgramInImage, ranks: int, tmp_path: Path) -> None:
    # If a step is left out, the batch normalization statistics from before the step are restored.
    usual, behind = (
        train_with_a_bad_batch(program, tmp_path / name, *more, ranks=ranks)
        for name, *more in (("at-once",), ("later", "--ahead"))
    )

    assert "step 11 is left out" in behind.stdout
    logged = [re.findall(r"^(\d+)\timages/sec.*\t(.*)$", run.stdout, re.MULTILINE) for run in (usual, behind)]
    assert logged[0] == logged[1]
    assert [step for step, _ in logged[0]] == ["5", "10", "15", "20"]
    saved = [saved_state.arrays(saved_state.newest(tmp_path / name)) for name in ("at-once", "later")]
    assert saved[0] == saved[1]
    assert any("running_mean" in name for name in saved[0])


def train_with_a_bad_batch(program: ProgramInImage, folder: Path, *more: str, ranks: int) -> Run:
    folder.mkdir()
    folder.chmod(0o777)
    scripts = {SCRIPTS / "faults" / name: f"/{name}" for name in ("bad_batch.py", "step_behind.py")}
    run = program(
        *(f"--data={DIGITS_IN_IMAGE}", "--model=normalized:net", "--steps=20", "--log-every=5", "--deterministic"),
        *("--checkpoint=/out", "--checkpoint-at-end", *more),
        ranks=ranks,
        starter=FORKED.get(program.name),
        script="/step_behind.py",
        env={"PYTHONPATH": "/models"},
        mounts={USER_MODELS_FOLDER: "/models", **scripts, folder: "/out"},
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run


def test_steps_on_a_cpu_store_no_seeds_for_cuda(printed: Mapping[str, str]) -> None:
    assert printed["seeds"] == "0 True\n"
