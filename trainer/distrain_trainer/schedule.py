"""Compute the learning rate of each step, and the decay of the weights' moving average."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from distrain_trainer.config import Config

BASE_BATCH = 256
# The rule that rate_scaling "auto" selects for each optimizer.
SCALINGS = {"sgd": "linear", "lars": "linear", "adam": "sqrt", "lamb": "sqrt"}


def learning_rate(
    config: Config, *, step: int, ranks: int, samples: int = 0, epoch_samples: int | None = None, updates: int = 1
) -> float:
    """Return the learning rate of step number `step`, which begins after all ranks have seen `samples` samples.

    The first step is step number 0. Each step makes `updates` updates of the weights, and each update uses the batches
    of `ranks` ranks. `epoch_samples` is the number of samples of an epoch, None for synthetic data.

    A warm-up and milestones in epochs are counted in samples. So the warm-up and the milestones do not move if the
    number of ranks changes.
    """
    batch = config.batch_size * ranks * updates
    rise = _warmup(config, step, samples, epoch_samples, batch)
    return scaled_rate(config, ranks=ranks) * rise * _decay(config, step, samples, epoch_samples, batch)


def remarks(config: Config, steps: int) -> Iterator[str]:
    """Yield one line for each value that has no effect, or hardly any, because the run is too short.

    `steps` is the number of steps of the run. These values are not refused: the run may be a short trial, and it may go
    on later with more epochs.
    """
    epochs = math.inf if config.epochs is None else config.epochs
    if late := [f"{each:g}" for each in config.milestones if each >= epochs]:
        yield f"trainer.milestones: the run ends after epoch {epochs}, so the rate does not fall after {','.join(late)}"
    if config.warmup > steps:
        yield (
            f"trainer.warmup: the run has only {steps} of these {config.warmup} steps, so the learning rate does not "
            "reach its full value"
        )
    if config.warmup_epochs > epochs:
        yield (
            f"trainer.warmupEpochs: the run has only {epochs} of these {config.warmup_epochs:g} epochs, so the "
            "learning rate does not reach its full value"
        )


def scaled_rate(config: Config, *, ranks: int) -> float:
    """Return the learning rate for the batch of `ranks` ranks, without warm-up and schedule.

    "linear" is the rule of Goyal et al. 2017 for SGD ("Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
    arXiv:1706.02677, section 2.1): with k times the batch, use k times the rate. "sqrt" is the rule for adaptive
    optimizers (Malladi et al. 2022, arXiv:2205.10287; You et al. 2020, arXiv:1904.00962): with k times the batch, use
    sqrt(k) times the rate.
    """
    scaling = SCALINGS[config.optimizer] if config.rate_scaling == "auto" else config.rate_scaling
    if scaling == "none":
        return config.learning_rate
    if scaling == "sqrt":
        return config.learning_rate * math.sqrt(config.batch_size * ranks / BASE_BATCH)
    return config.learning_rate * config.batch_size * ranks / BASE_BATCH


def _warmup(config: Config, step: int, samples: int, epoch_samples: int | None, batch: int) -> float:
    """Return the warm-up's factor for the rate. The factor rises linearly (Goyal et al. 2017, section 2.2).

    The factor rises from 0, not from the base rate, so that the rate rises even if the global batch is smaller than
    BASE_BATCH.
    """
    if config.warmup:
        return min(1.0, (step + 1) / config.warmup)
    if config.warmup_epochs and epoch_samples:
        return min(1.0, (samples + batch) / (config.warmup_epochs * epoch_samples))
    return 1.0


def _decay(config: Config, step: int, samples: int, epoch_samples: int | None, batch: int) -> float:
    """Return the factor by which the schedule multiplies the rate.

    "step" multiplies the rate at each milestone (He et al. 2015, arXiv:1512.03385). "cosine" lowers the rate to 0 over
    the steps after the warm-up (He et al. 2019, arXiv:1812.01187, section 5.1).
    """
    if config.schedule == "step" and epoch_samples:
        return config.decay_factor ** sum(samples >= _exact(each) * epoch_samples for each in config.milestones)
    if config.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * _share_after_warmup(config, step, samples, epoch_samples, batch)))
    return 1.0


def _exact(number: float) -> Fraction:
    """Return the number as an exact decimal, as the user has written it.

    Floating point would be inexact: 0.07 * 100 is above 7.
    """
    return Fraction(repr(number))


def _share_after_warmup(config: Config, step: int, samples: int, epoch_samples: int | None, batch: int) -> float:
    """Return how much of the training after the warm-up is completed, from 0 to 1.

    The share is measured in samples, or in steps if config.steps is set.

    If the warm-up is given in the other unit, it is converted with the current global batch size.
    """
    of_epochs = config.warmup_epochs * (epoch_samples or 0)
    if config.epochs is not None and epoch_samples:
        done, all_, warm = float(samples), config.epochs * epoch_samples, config.warmup * batch or of_epochs
    else:
        assert config.steps is not None
        done, all_, warm = float(step), config.steps, config.warmup or of_epochs / batch
    return min(1.0, max(0.0, (done - warm) / (all_ - warm))) if all_ > warm else 0.0


def ema_decay(limit: Any, step: Any, smaller: Callable[[Any, Any], Any] = min) -> Any:
    """Return the decay of the weights' moving average after `step` steps: at most `limit`, and smaller at the start.

    Otherwise the average of a short run would consist mainly of the random weights with which the run began. Source:
    tf.train.ExponentialMovingAverage, num_updates. `step` may be a tensor; then `smaller` compares tensors.
    """
    return smaller((1 + step) / (10 + step), limit)
