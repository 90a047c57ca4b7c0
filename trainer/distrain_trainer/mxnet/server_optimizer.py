"""Update the weights on the servers of an MXJob. Worker 0 pickles the optimizer and sends it to the servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mxnet as mx

from distrain_trainer.config import Config
from distrain_trainer.data import SampleCount
from distrain_trainer.mxnet.optimizers import make_optimizer
from distrain_trainer.mxnet.private import count_update
from distrain_trainer.mxnet.training import are_finite
from distrain_trainer.schedule import learning_rate


@dataclass(frozen=True)
class Keys:
    """The keys by which arrays are stored on the servers.

    The key modulo `servers` determines the server of an array, but a large array is divided among all servers. For each
    weight, the optimizer keeps `states` arrays of the weight's size. Each array of the optimizer has a key that places
    the array on the same server as its weight.
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
    def flag(self) -> int:
        return self.sums + 1

    @property
    def table(self) -> int:
        return self.sums + 2

    @property
    def first_message(self) -> int:
        return self.sums + 3

    def of_state(self, weight: int) -> list[int]:
        return [weight + self._stride * (number + 1) for number in range(self.states)]


# The number of state arrays that the optimizer keeps for each weight.
STATES = {"sgd": 1, "adam": 2, "adamw": 2, "lars": 1, "lamb": 2}
# Used before the weights are on the servers. A server then adds up everything that workers push.
NOTHING_BUT_SUMS = Keys(weights=0, states=0, servers=1)


class ServerOptimizer(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Update weights with pushed gradients.

    Arrays that are pushed under any other key are added up.

    The optimizer's state has its own keys, so workers can push and pull it.

    With dist_sync a server makes one update per step. With dist_async a server makes `pushes` updates per step, one for
    each worker. `ranks` is the number of ranks whose gradients are summed in one update; the update divides the sum by
    it. The learning rate is for a global batch of `ranks` ranks. `count` returns the number of samples that all ranks
    have seen before a step. Weights whose keys are in `exempt` have no weight decay. A server cannot compute `exempt`
    itself, because it does not know the shapes of the weights.
    """

    def __init__(
        self,
        config: Config,
        *,
        pushes: int,
        ranks: int,
        loss_scale: int,
        keys: Keys,
        count: SampleCount,
        exempt: Sequence[int] = (),
    ) -> None:
        super().__init__()
        schedule = Schedule(config, pushes=pushes, ranks=ranks, count=count)
        self.inner = make_optimizer(
            config,
            rescale_grad=1 / (ranks * loss_scale),
            lr_scheduler=schedule,
            # With a schedule this rate is not used, but MXNet warns if it differs from the schedule's base rate.
            learning_rate=schedule.base_lr,
            begin_num_update=count.start.step * pushes,
        )
        self.inner.set_wd_mult(dict.fromkeys(exempt, 0.0))
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
            # This step is left out: count the update, but do not change the weight.
            count_update(self.inner, index)


class Schedule(mx.lr_scheduler.LRScheduler):  # type: ignore[misc]
    """The learning rate schedule on the servers.

    A server counts updates, so the number of steps is computed from that count.
    """

    def __init__(self, config: Config, *, pushes: int, ranks: int, count: SampleCount) -> None:
        super().__init__()
        self.config, self.pushes, self.ranks, self.count = config, pushes, ranks, count

    def __call__(self, num_update: int) -> float:
        step, count = (num_update - 1) // self.pushes, self.count
        return learning_rate(
            self.config,
            step=step,
            ranks=self.ranks,
            updates=self.pushes,
            samples=count.before(step),
            epoch_samples=count.epoch_samples,
        )
