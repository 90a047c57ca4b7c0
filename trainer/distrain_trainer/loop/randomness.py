"""Seeds that follow from the configuration and the samples seen, so no generator's state has to be saved."""

from __future__ import annotations

import os

import numpy as np

from distrain_trainer.config import Config

# Horovod adds each tensor up by itself, and Open MPI always in one order: recursive doubling, which takes any size.
PINNED = {
    "HOROVOD_FUSION_THRESHOLD": "0",
    "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
    "OMPI_MCA_coll_tuned_allreduce_algorithm": "3",
}


def step_seed(config: Config, *, rank: int, samples: int) -> int:
    """Return a rank's seed for the step that begins after so many samples of all ranks; below 2**31."""
    return int(np.random.SeedSequence((config.seed, rank, samples)).generate_state(1)[0]) >> 1


def pin_all_reduce() -> None:
    """Have Horovod over MPI add up in one order. Before it starts; what is set by hand stays."""
    for name, value in PINNED.items():
        os.environ.setdefault(name, value)
