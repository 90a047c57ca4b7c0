"""How the workers of an MXJob pass each other values, through its servers."""

from __future__ import annotations

import math
import pickle
from typing import Any

import mxnet as mx
import numpy as np

from distrain_trainer.loop.run import Run
from distrain_trainer.mxnet.server_optimizer import Keys


class Mail:
    """Values that all workers send and receive together: the servers add up what each one pushes."""

    def __init__(self, store: Any, keys: Keys, *, index: int) -> None:
        self._store, self._index = store, index
        self._sums, self._next = keys.sums, keys.first_message
        self.looks = keys.looks
        self._table, self._workers = keys.table, int(store.num_workers)
        for key, size in ((self._sums, 2), (self.looks, 1), (self._table, 2 * self._workers)):
            store.init(key, mx.nd.zeros(size, dtype="float64"))

    def sum(self, value: float) -> float:
        """Return the sum of all workers' values, NaN if one of them is not finite: it would stay in all later sums."""
        is_finite = math.isfinite(value)
        total, others = self._added(self._sums, np.array([value if is_finite else 0.0, float(not is_finite)]))
        return math.nan if others else float(total)

    def count(self, number: int) -> int:
        """Return the sum of all workers' counts. A loss, however large, is not among what they are added to."""
        return round(sum(first for first, _ in self.pairs(number, 0)))

    def pairs(self, first: float, second: float) -> list[tuple[float, float]]:
        """Return every worker's two numbers."""
        table = np.zeros((self._workers, 2))
        table[self._index] = first, second
        return [(one, other) for one, other in self._added(self._table, table.reshape(-1)).reshape(-1, 2)]

    def _added(self, key: int, values: Any) -> Any:
        """Return the sum of all workers' arrays. The servers add up all that were ever pushed: it is what was added."""
        before, after = (mx.nd.zeros(len(values), dtype="float64") for _ in range(2))
        self._store.pull(key, out=before)
        before.wait_to_read()
        self._store._barrier()  # Distributed: all know what was there before.
        self._store.pushpull(key, mx.nd.array(values, dtype="float64"), out=after)
        after.wait_to_read()
        self._store._barrier()  # Distributed: all have added theirs.
        self._store.pull(key, out=after)
        return after.asnumpy() - before.asnumpy()

    def broadcast(self, value: Any, *, sender: int = 0) -> Any:
        """Return the value of one worker."""
        sends = self._index == sender
        content = np.frombuffer(pickle.dumps(value), dtype=np.uint8) if sends else np.zeros(0, dtype=np.uint8)
        length = self.count(len(content))
        key, self._next = self._next, self._next + 1
        received = mx.nd.zeros(length)
        self._store.init(key, received)
        self._store.push(key, mx.nd.array(content) if sends else mx.nd.zeros(length))
        mx.nd.waitall()
        self._store._barrier()  # Distributed: it is there.
        self._store.pull(key, out=received)
        return pickle.loads(received.asnumpy().astype(np.uint8).tobytes())

    def gather(self, value: Any) -> list[Any]:
        """Return every worker's value."""
        return [self.broadcast(value, sender=sender) for sender in range(self._workers)]

    def look(self, raise_it: bool) -> float:
        """Raise a flag, or not, and return how often one was raised so far."""
        seen = mx.nd.zeros(1, dtype="float64")
        self._store.pushpull(self.looks, mx.nd.array([float(raise_it)], dtype="float64"), out=seen)
        return float(seen.asscalar())

    def flags(self) -> float:
        seen = mx.nd.zeros(1, dtype="float64")
        self._store.pull(self.looks, out=seen)
        return float(seen.asscalar())


class Meeting:
    """Brings workers that may not wait for each other to one step, so that the servers hold the state after it."""

    def __init__(self, mail: Mail, store: Any, run: Run, steps: int) -> None:
        self._mail, self._store, self._run, self._steps = mail, store, run, steps
        self._seen = mail.flags()
        self._step: int | None = None
        self._asked = 0
        store._barrier()  # Distributed: all have looked before one raises a flag.

    def made_step(self, step: int, samples: int) -> None:
        """Count a step. Where any worker wants to save or to stop, all do once they have come as far as the furthest.

        Raises StoppedError when any was asked to stop.
        """
        if self._step is None:
            wants = bool(self._run.asked) or self._run.is_due
            if step == self._steps or self._mail.look(wants) != self._seen:
                self._meet(step)
        meets = step == self._step
        if meets:
            mx.nd.waitall()
            self._store._barrier()  # Distributed: the servers have every worker's step.
        asked = self._asked if meets and step < self._steps else 0
        self._run.made_step(samples, asked=asked, may_save=meets and step < self._steps)
        if meets and step < self._steps:
            self._store._barrier()  # Distributed: the copy is made.
            self._step = None

    def _meet(self, step: int) -> None:
        told = self._mail.pairs(step, self._run.asked)
        self._step, self._asked = (int(max(each)) for each in zip(*told, strict=True))
        self._seen = self._mail.flags()
