"""Replaces the program on every rank: print how much memory saving or resuming needs beyond the live state."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from distrain_trainer import __main__
from distrain_trainer.loop import saving
from distrain_trainer.loop.run import Run

# After STEPS_BEFORE steps, it is known how much memory the training itself needs, and the buffer is allocated. The
# first checkpoint is saved after FIRST_SAVE steps.
STEPS_BEFORE, FIRST_SAVE = 3, 6
begin, end_step, finish = Run.begin, Run.end_step, Run.finish
usual: list[float] = []


def mebibytes(name: str) -> float:
    """Return this process's resident memory: its present size (VmRSS) or its highest size so far (VmHWM)."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    assert found
    return int(found[1]) / 1024


def say(beside: float) -> None:
    print(f"memory beside the state: {beside:.0f} MiB", flush=True)


def begin_and_measure(*arguments: Any) -> Run:
    Path("/proc/self/clear_refs").write_text("5")  # Reset VmHWM.
    run = begin(*arguments)
    if run.position.step:
        say(mebibytes("VmHWM") - mebibytes("VmRSS") + len(run.buffer.span(0, sys.maxsize)) / 1024**2)
    return run


def end_step_and_measure(run: Run, step: int, **named: Any) -> None:
    made = step - 1 - run.resumed_step
    if made == STEPS_BEFORE:
        usual.append(mebibytes("VmHWM"))
        if run.writer is not None:
            # In a real run, a thread allocates the buffer. That thread has ended long before the first checkpoint is
            # due.
            run.buffer.reserve(saving._plan(run)[-1].end)
    end_step(run, step, **{**named, "may_save": made >= FIRST_SAVE})


def finish_and_measure(run: Run) -> None:
    finish(run)
    if usual:
        say(mebibytes("VmHWM") - usual[0])


setattr(Run, "begin", begin_and_measure)  # noqa: B010
setattr(Run, "end_step", end_step_and_measure)  # noqa: B010
setattr(Run, "finish", finish_and_measure)  # noqa: B010
setattr(saving, "prepare", lambda run: None)  # noqa: B010
__main__.main(sys.argv[1:])
