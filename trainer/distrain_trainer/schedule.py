"""Compute the learning rate of each step."""

from __future__ import annotations

from distrain_trainer.config import Config

BASE_BATCH = 256


def learning_rate(config: Config, *, step: int, ranks: int) -> float:
    """Return the learning rate of a step, counted from 0.

    It follows the linear scaling rule of Goyal et al. 2017 ("Accurate, Large Minibatch SGD: Training ImageNet in 1
    Hour", arXiv:1706.02677, section 2.1): k times the batch, k times the rate. During the warm-up (section 2.2) the
    rate rises linearly. It rises from 0 instead of the base rate, so that it rises for batches below the base too.
    """
    full = config.learning_rate * config.batch_size * ranks / BASE_BATCH
    return full * min(1.0, (step + 1) / config.warmup) if config.warmup else full
