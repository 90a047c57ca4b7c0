"""Keep an exponential moving average of the weights. The average can be tested and saved in place of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from distrain_trainer.config import Config


class Ema:
    """The moving average e of each trained weight w: after each step e = decay * e + (1 - decay) * w.

    Sources: Polyak and Juditsky 1992; Szegedy et al. 2016 (arXiv:1512.00567, section 8). The average begins with the
    weights before the first step. The moving means of batch normalization are not averaged. If the decay is 0, no
    average is kept.
    """

    def __init__(self, config: Config, model: Any) -> None:
        self._decay = config.ema
        self.weights = list(model.trainable_variables) if self._decay else []
        self.averages = [tf.Variable(each, trainable=False, name=f"ema/{each.name[:-2]}") for each in self.weights]
        self.is_loaded = False
        self._make_update = tf.function(self._update)

    def begin(self) -> None:
        """Start the averages from the weights, unless averages are loaded from a checkpoint.

        Call this when all ranks have the same weights.
        """
        if not self.is_loaded:
            self._copy(self.weights, self.averages)

    def update(self) -> None:
        if self.averages:
            self._make_update()

    def _update(self) -> None:
        for average, weight in zip(self.averages, self.weights, strict=True):
            average.assign(self._decay * average + (1 - self._decay) * weight)

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
