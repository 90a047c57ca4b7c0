"""Keep an exponential moving average of the weights. The average can be tested and saved in place of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from distrain_trainer.config import Config
from distrain_trainer.schedule import ema_decay


class Ema:
    """The moving average e of each trained weight w: after each step e = d * e + (1 - d) * w.

    d is the decay that schedule.ema_decay returns. The average begins with the weights before the first step. The
    moving means of batch normalization are not averaged. If config.ema is 0, no average is kept. `parameters` maps
    names to Gluon's parameters on one device.

    Sources: Polyak and Juditsky 1992; Szegedy et al. 2016 (arXiv:1512.00567, section 8).
    """

    def __init__(self, config: Config, parameters: Mapping[str, Any]) -> None:
        self._decay, self._step = config.ema, 0
        trained = parameters.items() if self._decay else ()
        self._weights = {name: each.data() for name, each in trained if each.grad_req != "null"}
        self.averages = {name: weight.copy() for name, weight in self._weights.items()}
        self.is_loaded = False

    def begin(self, step: int) -> None:
        """Start the averages from the weights, unless averages are loaded from a checkpoint.

        `step` is the number of steps made so far. Call this when all ranks have the same weights.
        """
        self._step = step
        if not self.is_loaded:
            self._copy(self._weights, self.averages)

    def load(self, averages: Mapping[str, Any]) -> None:
        """Load a checkpoint's averages. `averages` maps the name of each weight to its average."""
        self._copy(averages, self.averages)
        self.is_loaded = True

    def update(self) -> None:
        self._step += 1
        decay = ema_decay(self._decay, self._step)
        for name, average in self.averages.items():
            average *= decay
            average += (1 - decay) * self._weights[name]

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """While the body of the `with` runs, use the averages as the model's weights. Then restore the weights."""
        own = {name: weight.copy() for name, weight in self._weights.items()}
        self._copy(self.averages, self._weights)
        try:
            yield
        finally:
            self._copy(own, self._weights)

    def _copy(self, values: Mapping[str, Any], places: Mapping[str, Any]) -> None:
        for name, place in places.items():
            place[:] = values[name]
