"""Checkpoints of the first format are read: one file of the framework's own kind, with numbers for names.

Those in former/ were written by the programs of commit f6afcd5, two ranks with Adam, stopped after a few steps on the
model in former/tiny.py. live.json beside each is what live_state.py found in rank 0 then, under today's names.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from . import saved_state
from .conftest import DIGITS_IN_IMAGE, PROGRAMS, SCRIPTS, ProgramInImage

FORMER = SCRIPTS / "former"
NETS = {"tensorflow": "keras_net", "pytorch": "torch_net", "mxnet": "gluon_net"}
# Of the programs with one kind of state, one wrote its checkpoint, and another one reads it.
READERS = {
    "pytorch-ddp": "pytorch-horovod",
    "tensorflow-horovod": "tensorflow-horovod",
    "mxnet-horovod": "mxnet-horovod",
    "mxnet-kvstore": "mxnet-kvstore",
    "tensorflow-ps": "tensorflow-ps",
}


@pytest.mark.parametrize("writer", READERS)
def test_checkpoint_of_the_first_format_is_taken_over_whole(writer: str, digits: Path, tmp_path: Path) -> None:
    shutil.copytree(FORMER / writer, tmp_path / "run")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777)
    head = json.loads((tmp_path / "run/HEAD").read_text())
    step = json.loads((tmp_path / "run" / head["checkpoint"] / "manifest.json").read_text())["position"]["step"]
    program = ProgramInImage.named(READERS[writer], digits)
    model = f"--model=tiny:{NETS[PROGRAMS[writer].framework]}"
    arguments = (model, f"--data={DIGITS_IN_IMAGE}", "--batch-size=4", f"--steps={step}", "--optimizer=adam")
    places = ("--checkpoint=/out/run", "--checkpoint-at-end")
    mounts = {tmp_path: "/out", FORMER / "tiny.py": "/models/tiny.py"}

    # It makes no step, and saves what it has.
    run = program(*arguments, *places, env={"PYTHONPATH": "/models"}, mounts=mounts)

    assert run.returncode == 0, run.stdout + run.stderr
    assert f"resumed from {head['checkpoint']}: step {step}, " in run.stdout
    saved = saved_state.arrays(saved_state.newest(tmp_path / "run"))
    live = json.loads((FORMER / writer / "live.json").read_text())
    lacking = [name for name, told in live if not (name in saved and told.items() <= saved[name].items())]
    # Each step sets the rate, and the first format did not have it.
    assert not {*lacking} - {"optimizer.learning_rate"}
