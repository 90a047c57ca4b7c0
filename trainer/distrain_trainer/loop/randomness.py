"""Derive seeds from the configuration and the number of samples seen.

So checkpoints do not contain the state of any random number generator.
"""

from __future__ import annotations

import os
import random

import numpy as np

from distrain_trainer.config import Config

# Make Horovod reduce each tensor separately, and make Open MPI use recursive doubling for every message size.
PINNED = {
    "HOROVOD_FUSION_THRESHOLD": "0",
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_allreduce_algorithm": "3",
}


def seed_step(config: Config, *, rank: int, samples: int) -> int:
    """Seed the generators of Python and NumPy for a rank's next step. Return the seed for the framework's generator.

    The step begins after all ranks together have seen `samples` samples. The seed is below 2**31.
    """
    # Python hashes the text with SHA-512, so the seeds of consecutive steps and of different ranks are unrelated.
    random.seed(f"{config.seed} {rank} {samples}")
    np.random.seed(random.getrandbits(32))
    return random.getrandbits(31)


def seed_model(config: Config, *, rank: int) -> int:
    """Seed the generators of Python and NumPy, from which a user's model may draw when it is built.

    Return the seed for the framework's generator. Each rank has another seed. The seed is below 2**32, as NumPy
    requires, so the seed after the largest one is 0.
    """
    seed = (config.seed + rank) % 2**32
    random.seed(seed)
    np.random.seed(seed)
    return seed


def pin_all_reduce() -> None:
    """Make Horovod add up in a fixed order when it uses MPI.

    Call it before hvd.init(). Environment variables that are already set are not changed.
    """
    for name, value in PINNED.items():
        os.environ.setdefault(name, value)
