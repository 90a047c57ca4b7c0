"""Test that checkpoints contain a program's whole state: a resumed run must end like an uninterrupted run."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.conftest import (
    DIGITS_IN_IMAGE,
    FORKED,
    PROGRAMS,
    SCRIPTS,
    USER_MODELS_FOLDER,
    ProgramInImage,
    Run,
    Starter,
)
from tests.trainer.fixtures import saved_state

# An epoch has six steps of 256 samples, so the run ends in the middle of the second epoch.
STEPS, STOP_AFTER = 8, 2
ARGUMENTS = (
    f"--data={DIGITS_IN_IMAGE}",
    "--batch-size=128",
    f"--steps={STEPS}",
    "--learning-rate=0.01",
    "--deterministic",
)
WALKERS = ("live_pytorch.py", "live_tensorflow.py", "live_mxnet.py")
OPTIMIZERS = ("sgd", "adam")
STOPPED = re.compile(r"^stopped at step (\d+) .*; resumes there$", re.M)
# With several asynchronous workers, two runs never have the same result (see docs/training.md), so this program runs
# with one worker.
ONE_WORKER = "tensorflow-ps"
# For this program and optimizer, `make test` compares the whole state of a resumed run with that of an uninterrupted
# run. test_chaos.py does the same for mxnet-horovod, with kills, and test_strategies.py for pytorch-horovod. For the
# other programs, the tests below compare the saved state with the restored state. All programs share the code that
# seeds a step. So it is enough if this program trains a model that draws random numbers from Python and NumPy. It runs
# with one worker, so that fewer processes have to start.
TRIED = ("mxnet-kvstore", "sgd")
DRAWS = "--model=drawing:net"
# The program for which `make test` compares the state in fp16.
TRIED_IN_FP16 = "pytorch-horovod"
# In programs with parameter servers, the fp16 loss scale is a constant. In the other programs the scale changes, and is
# a part of the state.
WITH_FIXED_SCALE = ("tensorflow-ps", "mxnet-kvstore")
HALF_MODELS = {"tensorflow": "keras_net", "pytorch": "torch_net", "mxnet": "gluon_net"}


def train(
    program: ProgramInImage,
    optimizer: str,
    folder: Path,
    *,
    ranks: int = 2,
    stop_after: int = 0,
    more: Sequence[str] = (),
    script: str = "live_state.py",
    starter: Starter | None = None,
) -> Run:
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    places = ("--checkpoint=/out/checkpoints", "--checkpoint-at-end", f"--optimizer={optimizer}")
    mounts = {SCRIPTS / "state" / name: f"/{name}" for name in (script, "live_state.py", *WALKERS)}
    mounts |= {folder: "/out", USER_MODELS_FOLDER: "/models"}
    in_image: dict[str, Any] = {"env": {"STOP_AFTER": str(stop_after), "PYTHONPATH": "/models"}, "mounts": mounts}
    return program(*ARGUMENTS, *places, *more, ranks=ranks, script=f"/{script}", starter=starter, **in_image)


class Runs:
    """Two runs of a program: one is uninterrupted, the other was stopped and resumed."""

    def __init__(self, program: ProgramInImage, optimizer: str, folder: Path, *more: str, ranks: int = 2) -> None:
        self.program, self._folder = program, folder
        self.ranks = 1 if program.name == ONE_WORKER else ranks
        usual = ("--model=counted:net",) if program.name == ONE_WORKER else ()
        self._train = functools.partial(train, program, optimizer, ranks=self.ranks, more=(*usual, *more))

    @functools.cached_property
    def unbroken(self) -> Path:
        run = self._train(self._folder / "unbroken")
        assert run.returncode == 0, run.stdout + run.stderr
        return self._folder / "unbroken"

    @functools.cached_property
    def resumed(self) -> Path:
        stopped = self._train(self._folder / "resumed", stop_after=STOP_AFTER)
        assert STOPPED.search(stopped.stdout), stopped.stdout + stopped.stderr
        run = self._train(self._folder / "resumed")
        assert run.returncode == 0, run.stdout + run.stderr
        assert "resumed from " in run.stdout
        return self._folder / "resumed"


def lacking_of(live: list[tuple[str, Any]], saved: Mapping[str, Any]) -> list[str]:
    """Return the names of the live arrays and numbers that are missing in the checkpoint, or have other values there.

    live_state.py finds the live arrays and numbers.
    """
    return [name for name, told in live if not (name in saved and told.items() <= saved[name].items())]


def cases() -> list[Any]:
    """Return the test cases: TRIED, and in the full matrix every program with every optimizer."""
    others = itertools.product(PROGRAMS, OPTIMIZERS)
    full = [pytest.param((*case, 2, []), marks=pytest.mark.full, id="-".join(case)) for case in others]
    return [pytest.param((*TRIED, 1, [DRAWS]), id="-".join((*TRIED, "drawing"))), *full]


@pytest.fixture(scope="module", params=cases())
def runs(request: pytest.FixtureRequest, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    name, optimizer, ranks, more = request.param
    folder = tmp_path_factory.mktemp("runs")
    return Runs(ProgramInImage.named(name, digits), optimizer, folder, *more, ranks=ranks)


def test_checkpoint_holds_every_array_and_number_of_the_live_program(runs: Runs) -> None:
    live = json.loads((runs.unbroken / "live.json").read_text())

    checkpoint = saved_state.newest(runs.unbroken / "checkpoints")
    saved = saved_state.arrays(checkpoint)
    assert lacking_of(live, saved) == []
    assert any(name.startswith("optimizer.") for name, _ in live)
    # The random numbers of a step depend only on the seed and on the number of samples seen. The learning rate of a
    # step depends only on the step and on the number of samples seen. So all of these must be in the manifest.
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    assert manifest["subject"]["seed"] == 0
    if runs.ranks == 1:
        place = {"step": STEPS, "samples": STEPS * 128, "segments": [{"ranks": 1, "batch_size": 128, "steps": STEPS}]}
    else:
        segments = [{"ranks": 2, "batch_size": 128, "steps": STEPS - 6}]
        place = {"step": STEPS, "samples": 1437 + (STEPS - 6) * 256, "segments": segments}
    if runs.program.name == ONE_WORKER:
        [steps] = [told for name, told in saved.items() if name.startswith("model.") and name.endswith("/steps")]
        assert steps["sha256"] == hashlib.sha256(np.int64(STEPS).tobytes()).hexdigest()
    assert manifest["position"] == place


def test_stopped_and_resumed_run_ends_with_the_bits_of_an_unbroken_one(runs: Runs) -> None:
    unbroken, resumed = (saved_state.newest(each / "checkpoints") for each in (runs.unbroken, runs.resumed))

    assert saved_state.arrays(resumed) == saved_state.arrays(unbroken)


# Full matrix only: in `make test`, the model of the test above draws such random numbers.
@pytest.mark.full
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_a_model_draws_from_python_and_numpy_follow_from_the_step(
    name: str, digits: Path, tmp_path: Path
) -> None:
    runs = Runs(ProgramInImage.named(name, digits), "sgd", tmp_path, DRAWS)
    unbroken, resumed = (saved_state.newest(each / "checkpoints") for each in (runs.unbroken, runs.resumed))

    assert saved_state.arrays(resumed) == saved_state.arrays(unbroken)


# Full matrix only: in `make test`, test_former_formats.py loads a state on a server, with one worker, and saves it
# again.
@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_servers_of_two_asynchronous_workers_resume_the_bits_that_were_saved(
    optimizer: str, digits: Path, tmp_path: Path
) -> None:
    program = ProgramInImage.named(ONE_WORKER, digits)
    run = functools.partial(train, program, optimizer, tmp_path, starter=FORKED[ONE_WORKER])
    stopped = run(stop_after=STOP_AFTER)
    found = STOPPED.search(stopped.stdout)
    assert found, stopped.stdout + stopped.stderr
    saved = saved_state.arrays(saved_state.newest(tmp_path / "checkpoints"))
    assert lacking_of(json.loads((tmp_path / "live.json").read_text()), saved) == []

    # There is no step left to make, so the chief immediately saves the state that it has restored on the servers.
    resumed = run(more=[f"--steps={found[1]}"])

    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    restored = saved_state.newest(tmp_path / "checkpoints")
    assert restored.name.startswith("2-")
    assert saved_state.arrays(restored) == saved


@pytest.mark.parametrize(
    ("name", "stop_after"),
    [
        *(pytest.param(name, 5, marks=() if name == TRIED_IN_FP16 else pytest.mark.full) for name in PROGRAMS),
        # The loss scale is still so large that every step until the stop was left out.
        pytest.param("mxnet-horovod", 1, marks=pytest.mark.full),
    ],
)
def test_fp16_with_its_loss_scale_is_saved_and_resumed(
    name: str, stop_after: int, digits: Path, tmp_path: Path
) -> None:
    program = ProgramInImage.named(name, digits)
    more = ("--precision=fp16", f"--model=half:{HALF_MODELS[program.program.framework]}")
    run = functools.partial(train, program, "adam", tmp_path, ranks=1, script="as_on_gpu.py")
    stopped = run(stop_after=stop_after, more=more)
    found = STOPPED.search(stopped.stdout)
    assert found, stopped.stdout + stopped.stderr
    assert "training in fp32" not in stopped.stdout
    live = json.loads((tmp_path / "live.json").read_text())
    saved = saved_state.arrays(saved_state.newest(tmp_path / "checkpoints"))

    # There is no step left to make, so the run immediately saves the state that it has restored.
    resumed = run(more=(*more, f"--steps={found[1]}"))

    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert lacking_of(live, saved) == []
    assert any(name.startswith("scaler.") for name, _ in live) == (name not in WITH_FIXED_SCALE)
    restored = saved_state.newest(tmp_path / "checkpoints")
    assert restored.name.startswith("2-")
    assert saved_state.arrays(restored) == saved
