"""Give the workers of an MXJob collective operations (sum, broadcast and gather), which the servers compute."""

from __future__ import annotations

import math
import pickle
from typing import Any

import mxnet as mx
import numpy as np

from distrain_trainer.mxnet import private
from distrain_trainer.mxnet.server_optimizer import Keys


class Collectives:
    """Collective operations.

    Every worker must call the same operation. The servers add up the arrays that the workers push.
    """

    def __init__(self, store: Any, keys: Keys, *, index: int) -> None:
        self._store, self._index = store, index
        self._sums, self._next = keys.sums, keys.first_message
        self._flag = keys.flag
        self._table, self._workers = keys.table, int(store.num_workers)
        for key, size in ((self._sums, 2), (self._flag, 1), (self._table, 2 * self._workers)):
            store.init(key, mx.nd.zeros(size, dtype="float64"))

    def sum(self, value: float) -> float:
        """Return the sum of all workers' values, or NaN if any value is not finite.

        NaN itself is never pushed, because it would make the servers' running sums NaN for ever.
        """
        is_finite = math.isfinite(value)
        total, others = self._added(self._sums, np.array([value if is_finite else 0.0, float(not is_finite)]))
        return math.nan if others else float(total)

    def count(self, number: int) -> int:
        """Return the sum of all workers' counts.

        The sum is exact, because only whole numbers are ever added to the table of `pairs`.
        """
        return round(sum(first for first, _ in self.pairs(number, 0)))

    def pairs(self, first: float, second: float) -> list[tuple[float, float]]:
        """Return two numbers from every worker, in the order of the workers."""
        table = np.zeros((self._workers, 2))
        table[self._index] = first, second
        return [(one, other) for one, other in self._added(self._table, table.reshape(-1)).reshape(-1, 2)]

    def _added(self, key: int, values: Any) -> Any:
        """Return the sum of all workers' arrays.

        The array on a server is the sum of all pushes since the start. So the result is the value after this call minus
        the value before this call.
        """
        before, after = (mx.nd.zeros(len(values), dtype="float64") for _ in range(2))
        self._store.pull(key, out=before)
        before.wait_to_read()
        private.barrier(self._store)  # Distributed: by now all workers have read the old value.
        self._store.pushpull(key, mx.nd.array(values, dtype="float64"), out=after)
        after.wait_to_read()
        private.barrier(self._store)  # Distributed: all workers have pushed.
        self._store.pull(key, out=after)
        return after.asnumpy() - before.asnumpy()

    def broadcast(self, value: Any, *, sender: int = 0) -> Any:
        """Return the sender's value on all workers."""
        sends = self._index == sender
        content = np.frombuffer(pickle.dumps(value), dtype=np.uint8) if sends else np.zeros(0, dtype=np.uint8)
        length = self.count(len(content))
        key, self._next = self._next, self._next + 1
        received = mx.nd.zeros(length)
        self._store.init(key, received)
        self._store.push(key, mx.nd.array(content) if sends else mx.nd.zeros(length))
        mx.nd.waitall()
        private.barrier(self._store)  # Distributed: the sender has pushed the value.
        self._store.pull(key, out=received)
        return pickle.loads(received.asnumpy().astype(np.uint8).tobytes())

    def gather(self, value: Any) -> list[Any]:
        """Return every worker's value."""
        return [self.broadcast(value, sender=sender) for sender in range(self._workers)]

    def update_flag(self, *, raise_it: bool) -> float:
        """Raise the flag once if `raise_it` is set.

        Return how often all workers together have raised the flag so far.
        """
        seen = mx.nd.zeros(1, dtype="float64")
        self._store.pushpull(self._flag, mx.nd.array([float(raise_it)], dtype="float64"), out=seen)
        return float(seen.asscalar())

    def read_flag(self) -> float:
        """Return how often all workers together have raised the flag so far."""
        seen = mx.nd.zeros(1, dtype="float64")
        self._store.pull(self._flag, out=seen)
        return float(seen.asscalar())
