"""Measure in the graph of a step how long it waits for the averages after this rank's gradients are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class AllReduceWait:
    """A compression for Horovod that compresses nothing. Horovod passes each gradient through it once computed."""

    def __init__(self) -> None:
        self._computed: list[Any] = []

    def compress(self, tensor: Any) -> tuple[Any, None]:
        with tf.control_dependencies([tensor]):
            self._computed.append(tf.timestamp())
        return tensor, None

    def decompress(self, tensor: Any, _context: None) -> Any:
        return tensor

    def end(self, averages: Sequence[Any]) -> Any:
        """Return the seconds from this rank's last gradient to the last average, NaN if Horovod does not use this."""
        if not self._computed:
            return tf.constant(float("nan"), tf.float64)
        with tf.control_dependencies([average for average in averages if average is not None]):
            return tf.timestamp() - tf.reduce_max(tf.stack(self._computed))
