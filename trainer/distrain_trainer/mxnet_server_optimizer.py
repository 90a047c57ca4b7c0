"""What the servers of an MXJob do with what is pushed to them; worker 0 sends it to them, pickled."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from distrain_trainer.config import Config
from distrain_trainer.mxnet_training import make_optimizer
from distrain_trainer.schedule import learning_rate


class ServerOptimizer(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Makes weights of pushed gradients, and under one key adds up pushed numbers.

    A server updates once per step when it waits for all workers' gradients, and once per worker and step when it does
    not. So of `pushes` to a step, an update is made by the gradients of `ranks` ranks: their sum, which becomes the
    mean, and the learning rate is that of so many ranks' batch.
    """

    def __init__(self, config: Config, *, pushes: int, ranks: int, loss_scale: int, sum_key: int) -> None:
        super().__init__()
        schedule = Schedule(config, pushes=pushes, ranks=ranks)
        self.inner = make_optimizer(
            config,
            rescale_grad=1 / (ranks * loss_scale),
            lr_scheduler=schedule,
            # Never used beside a schedule, and yet MXNet prints a line where it is not the schedule's own.
            learning_rate=schedule.base_lr,
        )
        self.sum_key = sum_key

    def create_state_multi_precision(self, index: int, weight: Any) -> Any:
        return None if index == self.sum_key else self.inner.create_state_multi_precision(index, weight)

    def update_multi_precision(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        if index == self.sum_key:
            weight += grad
        else:
            self.inner.update_multi_precision(index, weight, grad, state)


class Schedule(mx.lr_scheduler.LRScheduler):  # type: ignore[misc]
    """The learning rate of an update, for the servers to ask: they count updates, not steps."""

    def __init__(self, config: Config, *, pushes: int, ranks: int) -> None:
        super().__init__()
        self.config, self.pushes, self.ranks = config, pushes, ranks

    def __call__(self, num_update: int) -> float:
        return learning_rate(self.config, step=(num_update - 1) // self.pushes, ranks=self.ranks)
