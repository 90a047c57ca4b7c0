"""Test that checkpoints of format 1 can still be read.

Format 1 is a single file in the framework's own format, in which arrays have numbers instead of names.

The checkpoints in former/ were written by the programs of commit f6afcd5. Two ranks trained the model in former/tiny.py
with Adam, and were stopped after a few steps. When each checkpoint was saved, live_state.py wrote the arrays that it
found in rank 0 to live.json, under the names that they have today.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.trainer.conftest import DIGITS_IN_IMAGE, FORKED, PROGRAMS, ProgramInImage, assert_refused
from tests.trainer.fixtures import saved_state

FORMER = Path(__file__).parent / "former"
FULL = pytest.mark.full
NETS = {"tensorflow": "keras_net", "pytorch": "torch_net", "mxnet": "gluon_net"}
# Maps the program that wrote a checkpoint to the program that reads it in the test. Both PyTorch programs save the same
# kind of state, so each one can read the other one's checkpoint.
READERS = {
    "pytorch-ddp": "pytorch-horovod",
    "tensorflow-horovod": "tensorflow-horovod",
    "mxnet-horovod": "mxnet-horovod",
    "mxnet-kvstore": "mxnet-kvstore",
    "tensorflow-ps": "tensorflow-ps",
}
# The programs that `make test` runs. mxnet-horovod is not among them, because its state is similar to that of
# mxnet-kvstore.
TRIED = ("pytorch-ddp", "tensorflow-horovod", "tensorflow-ps", "mxnet-kvstore")


# This model is smaller than the model in former/tiny.py, but has the same name.
SMALLER = """
from math import prod
from torch import nn

def torch_net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))
"""


def copy_of(writer: str, folder: Path) -> Path:
    """Return a copy of a program's checkpoint in a folder that processes in a container may write to."""
    shutil.copytree(FORMER / writer, folder / "run")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)
    return folder / "run"


@pytest.mark.parametrize(
    "writer", [pytest.param(writer, marks=() if writer in TRIED else pytest.mark.full) for writer in READERS]
)
def test_checkpoint_of_the_first_format_is_taken_over_whole(writer: str, digits: Path, tmp_path: Path) -> None:
    folder = copy_of(writer, tmp_path)
    head = json.loads((folder / "HEAD").read_text())
    step = json.loads((folder / head["checkpoint"] / "manifest.json").read_text())["position"]["step"]
    program = ProgramInImage.named(READERS[writer], digits)
    model = f"--model=tiny:{NETS[PROGRAMS[writer].framework]}"
    arguments = (model, f"--data={DIGITS_IN_IMAGE}", "--batch-size=4", f"--steps={step}", "--optimizer=adam")
    places = ("--checkpoint=/out/run", "--checkpoint-at-end")
    mounts = {tmp_path: "/out", FORMER / "tiny.py": "/models/tiny.py"}

    # The run makes no step, so it saves exactly the state that it has loaded.
    starter = FORKED.get(program.name)
    run = program(*arguments, *places, ranks=1, starter=starter, env={"PYTHONPATH": "/models"}, mounts=mounts)

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"resumed from {head['checkpoint']}: step {step}, " in run.stdout
    saved = saved_state.arrays(saved_state.newest(folder))
    live = json.loads((FORMER / writer / "live.json").read_text())
    lacking = [name for name, told in live if not (name in saved and told.items() <= saved[name].items())]
    # Format 1 did not contain the learning rate, because each step sets it anyway.
    assert not {*lacking} - {"optimizer.learning_rate"}


@pytest.mark.parametrize(
    ("writer", "said"),
    [
        pytest.param("pytorch-ddp", "1.bias is missing there and 10 here", id="shapes"),
        # test_files.py tests these refusals without running a program.
        pytest.param("mxnet-horovod", "framework is mxnet there and pytorch here", id="framework", marks=FULL),
        pytest.param("pytorch-ddp", "trainer.model is tiny:torch_net there and mnist here", id="model", marks=FULL),
    ],
)
def test_checkpoint_of_the_first_format_and_of_another_training_is_refused(
    writer: str, said: str, digits: Path, tmp_path: Path
) -> None:
    copy_of(writer, tmp_path)
    (tmp_path / "tiny.py").write_text(SMALLER)
    program = ProgramInImage.named("pytorch-horovod", digits)
    model = "mnist" if "mnist" in said else "tiny:torch_net"
    arguments = (f"--model={model}", f"--data={DIGITS_IN_IMAGE}", "--batch-size=4", "--steps=9", "--optimizer=adam")
    mounts = {tmp_path: "/out", tmp_path / "tiny.py": "/models/tiny.py"}

    run = program(*arguments, "--checkpoint=/out/run", ranks=1, env={"PYTHONPATH": "/models"}, mounts=mounts)

    assert_refused(run, f"checkpoint.uri: /out/run/1-32 does not fit this run: {said}; correct that")
