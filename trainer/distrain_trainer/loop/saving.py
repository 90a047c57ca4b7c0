"""Save a run's state: take snapshots between two steps, and log the writer's results."""

from __future__ import annotations

import math
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from distrain_trainer.checkpoint import layout
from distrain_trainer.checkpoint.arrays import require_same_model
from distrain_trainer.checkpoint.writer import Snapshot, Writer
from distrain_trainer.loop import stop_flag

if TYPE_CHECKING:
    from distrain_trainer.loop.run import Run


def end_step(run: Run, writer: Writer, step: int, *, asked: int, may_save: bool) -> None:
    """Called when a step's outcome is known: save or drop the held snapshot, and take another snapshot if one is due.

    The arguments are the same as those of Run.end_step.
    """
    if run.begun is None:
        run.begun = time.monotonic()
        prepare(run)
    writer.seconds_left = _seconds_left(run, run.begun)
    tell(run, writer)
    # This step may have used the weights in the held snapshot. Then its loss shows whether these weights are good.
    writer.settle(step, is_good=not run.bad_steps)
    if may_save and _takes_now(run, step, asked):
        # Wait for the step here. Otherwise the copy would wait for it, and this time would count as a cost of the
        # checkpoint.
        run.state.wait()
        writer.save(partial(snapshot, run), holds=True)


def _takes_now(run: Run, step: int, asked: int) -> bool:
    """Return whether to take a snapshot now. If the ranks save together, all ranks get the same result."""
    if not run.saves_together:
        return run.is_due
    # If this step began before the last snapshot was taken, its request to save has already been fulfilled by that
    # snapshot.
    if asked != stop_flag.SAVE or step <= run.taken_step or run.bad_steps:
        return False
    run.taken_step = run.position.step
    return True


def _seconds_left(run: Run, begun: float) -> float:
    """Estimate the seconds that the remaining steps will take. The result is infinity if the time is unknown."""
    timed = run.position.step - run.resumed_step - 1
    return (run.steps - run.position.step) * (time.monotonic() - begun) / timed if timed > 0 else math.inf


def prepare(run: Run) -> None:
    """Allocate the buffer in a thread. Called after the first step, because some optimizers have no state before it."""
    threading.Thread(target=run.buffer.reserve, args=[_plan(run)[-1].end], daemon=True).start()


def _plan(run: Run) -> list[layout.Part]:
    """Plan the files for this rank's part of the state.

    Raises ArgumentError if a step has added, removed or changed an array of the model.
    """
    fields = run.state.fields()
    require_same_model(fields, run.start)
    if not run.saves_together:
        return layout.plan(fields)
    return layout.plan(fields, run.state.unshared(), rank=run.group.rank, ranks=run.group.size)


def snapshot(run: Run) -> Snapshot:
    """Copy this rank's part of the state into the buffer."""
    parts = _plan(run)
    run.state.copy(run.buffer.place(parts), layout.cuts_of(parts))
    told = (list(run.history), parts, list(run.evaluations))
    return Snapshot(run.subject, run.position, run.group.size, *told)


def is_bad(run: Run) -> bool:
    """Return whether the last step was left out. If the ranks save together, all ranks get the same result."""
    return any(run.group.gather(bool(run.bad_steps))) if run.saves_together else bool(run.bad_steps)


def save_last(run: Run, writer: Writer) -> str:
    """Save the last state.

    Called by all ranks that have a writer. Return "" if the state is saved, otherwise the reason why it is not.
    """
    run.state.wait()
    agree = partial(_first_reason, run) if run.saves_together else str
    return writer.save_last(partial(snapshot, run), run.position.samples, agree)


def _first_reason(run: Run, own: str) -> str:
    """Return the reason of the first rank that could not write its files, or "" if all ranks could."""
    reasons = run.group.gather(own)
    return next((f"rank {rank}: {reason}" if rank else reason for rank, reason in enumerate(reasons) if reason), "")


def tell(run: Run, writer: Writer) -> None:
    """Log and record what the writer has done. Ranks other than 0 log only outages, on stderr."""
    line = writer.outage.line()
    if run.group.rank:
        if line:
            print(f"rank {run.group.rank}: {line}", file=sys.stderr, flush=True)
        return
    while writer.lines:
        run.log.print(writer.lines.popleft())
    run.metrics.set(checkpoint_stall_seconds=writer.stalled)
    while writer.saved:
        saved = writer.saved.popleft()
        run.record.add("checkpoint", **saved)
        run.metrics.saved(write_seconds=saved["write_seconds"], unix_seconds=time.time())
    if line:
        run.log.print(line)
