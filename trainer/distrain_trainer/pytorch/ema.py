"""Keep an exponential moving average of the weights. The average can be tested and saved in place of the weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from distrain_trainer.config import Config
from distrain_trainer.schedule import ema_decay


class Ema:
    """The moving average e of each trained weight w: after each step e = d * e + (1 - d) * w.

    d is the decay that schedule.ema_decay returns. The average begins with the weights before the first step. Buffers,
    such as the means of batch normalization, are not averaged. If config.ema is 0, no average is kept.

    Sources: Polyak and Juditsky 1992; Szegedy et al. 2016 (arXiv:1512.00567, section 8).
    """

    def __init__(self, config: Config, model: Any) -> None:
        self._decay, self._step = config.ema, 0
        named = model.named_parameters() if self._decay else ()
        self._weights = {name: weight for name, weight in named if weight.requires_grad and weight.is_floating_point()}
        self.averages = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self.is_loaded = False

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def begin(self, step: int) -> None:
        """Start the averages from the weights, unless averages are loaded from a checkpoint.

        `step` is the number of steps made so far. Call this when all ranks have the same weights.
        """
        self._step = step
        if not self.is_loaded:
            for name, average in self.averages.items():
                average.copy_(self._weights[name])

    def load(self, averages: Mapping[str, Any]) -> None:
        """Load a checkpoint's averages. `averages` maps the name of each weight to its average."""
        for name, average in self.averages.items():
            average.copy_(averages[name])
        self.is_loaded = True

    def update(self) -> None:
        if not self.averages:
            return
        self._step += 1
        share = 1 - ema_decay(self._decay, self._step)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averages.values()), list(self._weights.values()), share)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """While the body of the `with` runs, use the averages as the model's weights. Then restore the weights."""
        own = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self._give(self.averages)
        try:
            yield
        finally:
            self._give(own)

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
    def _give(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._weights[name].copy_(value)
