"""Keep an exponential moving average of the weights. The average can be tested and saved in place of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from distrain_trainer.config import Config
from distrain_trainer.schedule import ema_decay


class Ema:
    """The moving average e of each trained weight w: after each step e = d * e + (1 - d) * w.

    d is the decay that schedule.ema_decay returns. The average begins with the weights before the first step. The
    moving means of batch normalization are not averaged. If config.ema is 0, no average is kept.

    Sources: Polyak and Juditsky 1992; Szegedy et al. 2016 (arXiv:1512.00567, section 8).
    """

    def __init__(self, config: Config, model: Any) -> None:
        self._decay, self._step = config.ema, tf.Variable(0, trainable=False, dtype=tf.int64)
        self.weights = list(model.trainable_variables) if self._decay else []
        self.averages = [tf.Variable(each, trainable=False, name=f"ema/{each.name[:-2]}") for each in self.weights]
        self.is_loaded = False
        self._make_update = tf.function(self._update)

    def begin(self, step: int) -> None:
        """Start the averages from the weights, unless averages are loaded from a checkpoint.

        `step` is the number of steps made so far. Call this when all ranks have the same weights.
        """
        self._step.assign(step)
        if not self.is_loaded:
            self._copy(self.weights, self.averages)

    def update(self) -> None:
        if self.averages:
            self._make_update()

    def _update(self) -> None:
        step = tf.cast(self._step.assign_add(1), tf.float64)
        decay = ema_decay(self._decay, step, smaller=tf.minimum)
        kept, added = tf.cast(decay, tf.float32), tf.cast(1 - decay, tf.float32)
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.assign(kept * average + added * weight)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """While the body of the `with` runs, use the averages as the model's weights. Then restore the weights."""
        own = [tf.identity(weight) for weight in self.weights]
        self._copy(self.averages, self.weights)
        try:
            yield
        finally:
            self._copy(own, self.weights)

    def _copy(self, values: Sequence[Any], places: Sequence[Any]) -> None:
        for value, place in zip(values, places, strict=True):
            place.assign(value)
