"""Measure in the graph of a step how long it waits for the averages after this rank's gradients are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class AllReduceWait:
    """The wait of one step: timestamps after this rank's last gradient, and after the last average."""

    def __init__(self) -> None:
        self._computed: Any = None

    def tape(self) -> Any:
        """Return a tape that notes when the gradients are computed. Horovod's tape asks it for them."""
        wait = self

        class Tape(tf.GradientTape):  # type: ignore[misc]  # tensorflow is not installed where types are checked
            def gradient(self, *arguments: Any, **more: Any) -> Any:
                gradients = super().gradient(*arguments, **more)
                wait._computed = timestamp_after(gradients)
                return gradients

        return Tape()

    def end(self, averages: Sequence[Any]) -> Any:
        """Return the seconds from this rank's last gradient to the last average, NaN without a tape of `tape`."""
        if self._computed is None:
            return tf.constant(float("nan"), tf.float64)
        return timestamp_after(averages) - self._computed


def timestamp_after(tensors: Sequence[Any]) -> Any:
    """Return the time when all of the tensors are computed, on a CPU. A user's model may leave gradients out."""
    with tf.control_dependencies([tensor for tensor in tensors if tensor is not None]):
        return tf.timestamp()
