"""What the servers of an MXJob do with what is pushed to them; worker 0 sends it to them, pickled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mxnet as mx

from distrain_trainer.config import Config
from distrain_trainer.mxnet.training import are_finite, make_optimizer
from distrain_trainer.schedule import learning_rate


@dataclass(frozen=True)
class Keys:
    """Under which keys things lie on the servers. A key's array lies on the server of its remainder, or on all.

    So what an optimizer keeps of a weight, `states` arrays of its size, lies where the weight does.
    """

    weights: int
    states: int
    servers: int

    @property
    def _stride(self) -> int:
        return self.servers * (self.weights // self.servers + 1)

    @property
    def sums(self) -> int:
        return self._stride * (self.states + 1)

    @property
    def looks(self) -> int:
        return self.sums + 1

    @property
    def table(self) -> int:
        return self.sums + 2

    @property
    def first_message(self) -> int:
        return self.sums + 3

    def of_state(self, weight: int) -> list[int]:
        return [weight + self._stride * (number + 1) for number in range(self.states)]


# How many arrays an optimizer keeps of a weight.
STATES = {"sgd": 1, "adam": 2}
# Before there are weights: all that is pushed is added up.
NOTHING_BUT_SUMS = Keys(weights=0, states=0, servers=1)


class ServerOptimizer(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Makes weights of pushed gradients, and under the keys that are no weight's adds up pushed numbers.

    What the optimizer keeps of a weight lies under keys of its own, so that workers can put it there and pull it.

    A server updates once per step when it waits for all workers' gradients, and once per worker and step when it does
    not. So of `pushes` to a step, an update is made by the gradients of `ranks` ranks: their sum, which becomes the
    mean, and the learning rate is that of so many ranks' batch.
    """

    def __init__(
        self, config: Config, *, pushes: int, ranks: int, loss_scale: int, keys: Keys, begin_num_update: int = 0
    ) -> None:
        super().__init__()
        schedule = Schedule(config, pushes=pushes, ranks=ranks)
        self.inner = make_optimizer(
            config,
            rescale_grad=1 / (ranks * loss_scale),
            lr_scheduler=schedule,
            # Never used beside a schedule, and yet MXNet prints a line where it is not the schedule's own.
            learning_rate=schedule.base_lr,
            begin_num_update=begin_num_update,
        )
        self.keys = keys
        self.kept: dict[int, Any] = {}

    def create_state_multi_precision(self, index: int, weight: Any) -> Any:
        if index >= self.keys.weights:
            self.kept[index] = weight
            return None
        kept = [self.kept[key] for key in self.keys.of_state(index)]
        return kept[0] if len(kept) == 1 else tuple(kept)

    def update_multi_precision(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        if index >= self.keys.weights:
            weight += grad
        elif are_finite([grad]):
            self.inner.update_multi_precision(index, weight, grad, state)
        else:
            # A worker's step that is to be left out, by all: it counts, and changes nothing.
            self.inner._update_count(index)


class Schedule(mx.lr_scheduler.LRScheduler):  # type: ignore[misc]
    """The learning rate of an update, for the servers to ask: they count updates, not steps."""

    def __init__(self, config: Config, *, pushes: int, ranks: int) -> None:
        super().__init__()
        self.config, self.pushes, self.ranks = config, pushes, ranks

    def __call__(self, num_update: int) -> float:
        return learning_rate(self.config, step=(num_update - 1) // self.pushes, ranks=self.ranks)
