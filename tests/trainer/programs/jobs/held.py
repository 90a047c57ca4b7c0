"""Runs inside the image: train like `python3 -m distrain_trainer`, but wait for a file before and after the steps.

The names of these files are /out/begin-STEP and /out/end-STEP. So Prometheus can scrape the run before and after the
steps, even if the steps are fast.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from distrain_trainer.__main__ import main
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.run import Run

start, finish = Progress.start, Progress.finish


def wait_for(run: Run, name: str) -> None:
    while run.group.rank == 0 and (run.record.count("start") is None or not Path("/out", name).exists()):
        time.sleep(0.05)


def held_start(run: Run) -> Progress:
    wait_for(run, f"begin-{run.position.step}")
    return start(run)


def held_finish(progress: Progress, *arguments: Any, **more: Any) -> None:
    wait_for(progress.run, f"end-{progress.steps}")
    finish(progress, *arguments, **more)


Progress.start = held_start  # type: ignore[method-assign]
Progress.finish = held_finish  # type: ignore[assignment, method-assign]
main(sys.argv[1:])
