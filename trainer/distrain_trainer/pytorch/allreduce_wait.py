"""Measure how long a step waits for the averaged gradients after this rank has computed its own gradients.

The backward pass computes the gradients, and the ranks begin to average them meanwhile. The averaging costs no time as
long as gradients are still being computed. Only the wait after the last gradient is a cost of the network. The
functions in this module do not wait for the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


class AllReduceWait:
    """The time for which the current step waits for the averaged gradients.

    On a GPU, the GPU's own clock measures the wait. This process cannot measure the wait, because it only queues the
    step, which the GPU computes later.
    """

    def __init__(self, *, is_on_gpu: bool) -> None:
        self._is_on_gpu = is_on_gpu
        self._begun: Any = None
        self._last = -1
        self._hooks: list[Any] = []

    @classmethod
    def within_backward(cls, model: Any, *, is_on_gpu: bool) -> AllReduceWait:
        """Return a measurement for DistributedDataParallel, which begins when the backward pass has computed all
        gradients.
        """
        wait = cls(is_on_gpu=is_on_gpu)
        trained = [each for each in model.parameters() if each.requires_grad]
        wait._hooks = [
            each.register_post_accumulate_grad_hook(partial(wait._got, number)) for number, each in enumerate(trained)
        ]
        return wait

    def _got(self, number: int, _parameter: Any) -> None:
        self._last = number
        self.begin()

    def begin(self) -> None:
        self._begun = self._now()

    def end(self) -> Callable[[], float | None]:
        """End the wait.

        Return a function that returns the wait in seconds. Call that function after the step's outcome is known. The
        function returns None if the wait was not measured. A hook on one parameter begins the measurement, and some
        steps of a user's model may leave this parameter out.
        """
        begun, self._begun, ended = self._begun, None, self._now()
        for number, hook in enumerate(self._hooks):
            if number != self._last:
                hook.remove()
        # The gradients are computed in the same order in each step. So after the first step, only the parameter whose
        # gradient comes last needs a hook.
        self._hooks = []
        if begun is None:
            return lambda: None
        return lambda: begun.elapsed_time(ended) / 1000 if self._is_on_gpu else ended - begun

    def _now(self) -> Any:
        if not self._is_on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
