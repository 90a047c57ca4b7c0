"""Run as a rank of any program: prints, for each step that is saved, how many seconds the training was held up."""

from __future__ import annotations

import sys
import time

from distrain_trainer import __main__
from distrain_trainer.checkpoint import Run
from distrain_trainer.checkpoint.saver import Snapshot

take = Run._snapshot


def timed(run: Run) -> Snapshot:
    started = time.perf_counter()
    snapshot = take(run)
    run.log.print(f"held up: {time.perf_counter() - started:.6f} s")
    return snapshot


setattr(Run, "_snapshot", timed)  # noqa: B010
__main__.main(sys.argv[1:])
