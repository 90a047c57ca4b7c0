"""`make bench`: which share of the training's time saving takes at the automatic interval. Two ranks, ResNet50.

What holds the training up is the copy to host memory; the rest is written beside it, at the cost of processors that a
node with GPUs has to spare. So two shares are told: of the copy alone, and, were all of it in the way, of the whole.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from pathlib import Path

from distrain_trainer.checkpoint.interval import seconds_between

from .conftest import PROGRAMS, SCRIPTS, run_in_image

RANKS = 2
GOAL = 0.02
ARGUMENTS = ("--model=resnet50", "--steps=8", "--batch-size=1", "--checkpoint=/out", "--checkpoint-every=0.001")


def main() -> int:
    """Print a line per framework. Returns 1 when a share is above the goal."""
    shares = [measure(name) for name in ("tensorflow-horovod", "pytorch-ddp", "mxnet-horovod")]
    return int(max(shares) > GOAL)


def measure(name: str) -> float:
    """Return the share of the time that the training is held up."""
    program = PROGRAMS[name]
    command = [*program.starter(RANKS), "/held_up.py", *program.arguments, *ARGUMENTS]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        mounts = {SCRIPTS / "held_up.py": "/held_up.py", Path(folder): "/out"}
        run = run_in_image(program.framework, command, Path(folder), env=None, mounts=mounts, timeout=600)
    if run.returncode:
        sys.exit(run.stderr)
    held_up = statistics.median(map(float, re.findall(r"^held up: ([\d.]+) s$", run.stdout, re.M)))
    whole = statistics.median(map(float, re.findall(r"^checkpoint: saved .*, ([\d.]+) s, next", run.stdout, re.M)))
    interval = seconds_between(None, cost=whole, ranks=RANKS)
    print(
        f"{name}, resnet50, {RANKS} ranks: a checkpoint takes {whole:.1f} s and holds the training up for "
        f"{held_up:.3f} s; one every {interval:.0f} s: {held_up / interval:.4%} (all of it: {whole / interval:.4%})",
        flush=True,
    )
    return held_up / interval


if __name__ == "__main__":
    sys.exit(main())
