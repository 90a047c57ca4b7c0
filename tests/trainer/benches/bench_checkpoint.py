"""`make bench`: measure how long a checkpoint of two ranks stops the training, and how much memory it uses.

The checkpoint has 512 MiB.

Each rank runs on its own core. The bench prints two figures of memory, one for saving and one for resuming: the memory
used in addition to the live state, divided by the state's size. Both are those of the rank that uses most.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.trainer.conftest import PROGRAMS, SCRIPTS, USER_MODELS_FOLDER, Run, mpirun_of, run_in_image

MIB = 512
RANKS = 2
MOST_SECONDS = 0.1
MOST_MEMORY = 1.25
NETS = {"tensorflow": "keras_net", "pytorch": "torch_net", "mxnet": "gluon_net"}
# An image has 16x16x3 = 768 numbers, and a layer of the model in large.py has 768x768 weights. So the model has many
# layers.
DATA = ("--image-size=16", "--classes=10", "--batch-size=1")
# With a higher learning rate, the loss of such a deep model becomes NaN. After a step with NaN, no checkpoint is saved.
RATE = "--learning-rate=1e-9"
ARGUMENTS = (*DATA, RATE, "--checkpoint=/out/checkpoints", "--checkpoint-every=0.001", "--checkpoint-at-end")


def main() -> int:
    """Print one line per framework. Return 1 if a figure exceeds its limit."""
    are_good = [measure(name) for name in ("tensorflow-horovod", "pytorch-horovod", "mxnet-horovod")]
    return int(not all(are_good))


def measure(name: str) -> bool:
    """Measure the times and the memory with which a program saves and resumes.

    Return whether they are within the limits.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        saving, resuming = (run(name, Path(folder), steps) for steps in (9, 10))
    held_up = max(map(float, re.findall(r"held the training up for ([\d.]+) s", saving.stdout)))
    memory = [
        max(map(float, re.findall(r"^memory beside the state: ([\d.]+) MiB$", each.stdout, re.M))) / MIB
        for each in (saving, resuming)
    ]
    print(
        f"{name}, {MIB} MiB, {RANKS} ranks: a checkpoint holds the training up for {held_up:.3f} s at most; memory "
        f"beside the live state: {memory[0]:.2f} x while saving, {memory[1]:.2f} x while resuming",
        flush=True,
    )
    return held_up <= MOST_SECONDS and max(memory) <= MOST_MEMORY


def run(name: str, folder: Path, steps: int) -> Run:
    program = PROGRAMS[name]
    arguments = [*program.arguments, f"--model=large:{NETS[program.framework]}", f"--steps={steps}", *ARGUMENTS]
    mounts = {
        SCRIPTS / "state/held_up.py": "/held_up.py",
        USER_MODELS_FOLDER / "large.py": "/models/large.py",
        folder: "/out",
    }
    command = [*mpirun_of(RANKS, bind_to="core"), "/held_up.py", *arguments]
    environment = {"PYTHONPATH": "/models"}
    ended = run_in_image(program.framework, command, folder, env=environment, mounts=mounts, timeout=600)
    if ended.returncode:
        sys.exit(ended.stderr)
    return ended


if __name__ == "__main__":
    sys.exit(main())
