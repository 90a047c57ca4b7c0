"""Measure how long a step waits for the averaged gradients. The times are measured inside the step's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class AllReduceWait:
    """The wait of one step, as two timestamps: after this rank's last gradient, and after the last average."""

    def __init__(self) -> None:
        self._computed: Any = None

    def tape(self) -> Any:
        """Return a gradient tape that records the time when all gradients are computed.

        Horovod's tape calls the method `gradient` of this tape.
        """
        wait = self

        class Tape(tf.GradientTape):  # type: ignore[misc]  # tensorflow is not installed where types are checked
            def gradient(self, *arguments: Any, **more: Any) -> Any:
                gradients = super().gradient(*arguments, **more)
                wait._computed = timestamp_after(gradients)
                return gradients

        return Tape()

    def end(self, averages: Sequence[Any]) -> Any:
        """Return the seconds between this rank's last gradient and the last average, or NaN if `tape` was not used."""
        if self._computed is None:
            return tf.constant(float("nan"), tf.float64)
        return timestamp_after(averages) - self._computed


def timestamp_after(tensors: Sequence[Any]) -> Any:
    """Return the time, by the CPU's clock, at which all tensors have been computed.

    A tensor in `tensors` may be None, because a weight may have no gradient.
    """
    with tf.control_dependencies([tensor for tensor in tensors if tensor is not None]):
        return tf.timestamp()
