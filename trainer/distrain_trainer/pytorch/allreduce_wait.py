"""Measure how long a step waits for the averages of the gradients after this rank's own gradients are computed.

A backward pass first computes gradients, and then has this wait. Only the wait is a cost of the network: data that
ranks exchange while they compute gradients costs no time. The functions here do not wait for the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


class AllReduceWait:
    """The wait of the current step.


    A GPU's own clock measures the wait, because the GPU computes a step later than this process queues it.
    """

    def __init__(self, *, is_on_gpu: bool) -> None:
        self._is_on_gpu = is_on_gpu
        self._begun: Any = None
        self._last = -1
        self._hooks: list[Any] = []

    @classmethod
    def within_backward(cls, model: Any, *, is_on_gpu: bool) -> AllReduceWait:
        """Return a wait that begins with the last gradient of the backward pass, for DistributedDataParallel."""
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
        """End the wait. Return a function that gives its seconds. Call that function when the step's outcome is known.

        The function returns None if this step's wait has not begun: the hook is on the parameter that was last in the
        first step, and a user's model may leave that parameter out in a later step.
        """
        begun, self._begun, ended = self._begun, None, self._now()
        for number, hook in enumerate(self._hooks):
            if number != self._last:
                hook.remove()
        # In each step the gradients are computed in the same order. So after the first step, the hook of the last
        # parameter is enough.
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
