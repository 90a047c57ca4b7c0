"""The learning rate of each step."""

from __future__ import annotations

from distrain_trainer.config import Config

BASE_BATCH = 256


def learning_rate(config: Config, *, step: int, ranks: int) -> float:
    """Return the rate of a step, counted from 0.

    The linear scaling rule of Goyal et al. 2017 ("Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
    arXiv:1706.02677, section 2.1): k times the batch, k times the rate. Over the warm-up steps (section 2.2) it rises
    linearly, here from 0 and not from the base rate, so that it rises for batches below the base as well.
    """
    full = config.learning_rate * config.batch_size * ranks / BASE_BATCH
    return full * min(1.0, (step + 1) / config.warmup) if config.warmup else full
