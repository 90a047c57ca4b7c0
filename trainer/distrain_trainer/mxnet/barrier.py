"""Stop all workers of an MXJob after the same step, to save a checkpoint.

Without this, the workers may be at different steps.
"""

from __future__ import annotations

from typing import Any

import mxnet as mx

from distrain_trainer.loop.run import Run
from distrain_trainer.mxnet import private
from distrain_trainer.mxnet.collectives import Collectives


class Barrier:
    """Stop all workers after the same step, so that the servers contain the state after exactly that step."""

    def __init__(self, collectives: Collectives, store: Any, run: Run) -> None:
        self._collectives, self._store, self._run = collectives, store, run
        self._seen = collectives.read_flag()
        self._step: int | None = None
        self._asked = 0
        private.barrier(store)  # Distributed: wait until every worker has read the flag.

    def made_step(self, step: int, samples: int) -> None:
        """Count a step.

        If a worker wants to save or was asked to stop, all workers stop after the step that the furthest worker has
        reached. Raises StoppedError if any worker was asked to stop.
        """
        if self._step is None:
            wants = bool(self._run.asked) or self._run.is_due
            if step == self._run.steps or self._collectives.update_flag(raise_it=wants) != self._seen:
                self._agree_on_step(step)
        is_at_barrier = step == self._step
        if is_at_barrier:
            mx.nd.waitall()
            private.barrier(self._store)  # Distributed: by now the servers have applied every worker's step.
        asked = self._asked if is_at_barrier and step < self._run.steps else 0
        self._run.made_step(samples, asked=asked, may_save=is_at_barrier and step < self._run.steps)
        if is_at_barrier and step < self._run.steps:
            private.barrier(self._store)  # Distributed: by now worker 0 has copied the state.
            self._step = None

    def _agree_on_step(self, step: int) -> None:
        told = self._collectives.pairs(step, self._run.asked)
        self._step, self._asked = (int(max(each)) for each in zip(*told, strict=True))
        self._seen = self._collectives.read_flag()
