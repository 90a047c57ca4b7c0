"""Compute the figures of a run from its size, one formula per function.

Batch sizes are in samples, K is the number of bytes of all gradients, and times are in seconds. Arguments are above 0
unless a docstring says otherwise. Only results that must be whole numbers are rounded. The trainer uses the same
formulas in distrain_trainer.schedule and distrain_trainer.data.
"""

from __future__ import annotations

import math

# trainer.learningRate is the rate for a batch of BASE_BATCH samples: 8 GPUs with 32 images each, from Goyal et al.
# 2017.
BASE_BATCH = 256
# Gradients are sent and weights are stored in fp32, whatever trainer.precision is.
BYTES_PER_NUMBER = 4

# Mean number of days until a GPU's failure ends a job. Kokolis et al. 2024 ("Revisiting Reliability in Large-Scale
# Machine Learning Research Clusters", arXiv:2410.21680) report 6.50 failures in 1000 node-days for cluster RSC-1, whose
# nodes have 8 GPUs.
GPU_DAYS_BETWEEN_FAILURES = 8 * 1000 / 6.50
# The largest number of seconds between two checkpoints. The cluster RSC-1 is well maintained, and other clusters fail
# more often. So the interval from the formula could be too long for them.
LONGEST_BETWEEN_CHECKPOINTS = 1800.0


def world_size(workers: int, slots: int) -> int:
    """Return the number of ranks: each slot of a worker runs one rank.

    A worker has one slot for each GPU, or one slot if it has no GPUs.
    """
    return workers * slots


def global_batch(ranks: int, batch_size: int) -> int:
    """Return the number of samples per step over all ranks, if each rank has `batch_size` samples."""
    return ranks * batch_size


def scaled_rate(base_rate: float, batch: int, scaling: str = "linear") -> float:
    """Return the learning rate for a batch size. `base_rate` is the learning rate for a batch of BASE_BATCH.

    "linear" is the rule of Goyal et al. 2017 for SGD ("Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
    arXiv:1706.02677, section 2.1): a rate of 0.1 for a batch of 256 becomes 3.2 for 8192. "sqrt" is the rule for
    adaptive optimizers (Malladi et al. 2022, arXiv:2205.10287). "none" returns the base rate.
    """
    share = batch / BASE_BATCH
    return base_rate * {"linear": share, "sqrt": math.sqrt(share), "none": 1.0}[scaling]


def steps_per_epoch(samples: int, batch: int) -> int:
    """Return the number of steps in which all ranks together see every sample once.

    The last step may have fewer samples.

    Example: ImageNet's 1,281,167 images at a batch of 256 give 5005 steps, as in the log of PyTorch's ImageNet example.
    """
    return math.ceil(samples / batch)


def gradient_bytes(parameters: int) -> int:
    """Return K, the bytes of all gradients of a step: one fp32 number per trainable parameter."""
    return parameters * BYTES_PER_NUMBER


def all_reduce_bytes(size: float, ranks: float) -> float:
    """Return the bytes that each of N ranks sends per step, and also receives: 2(N-1)K/N.

    `size` is K. Patarasuk and Yuan 2009 ("Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC
    69): a ring adds N parts of K/N bytes in N-1 rounds and distributes the sums in N-1 more. No algorithm sends less.
    The result is below 2K for any number of ranks.
    """
    return 2 * (ranks - 1) * size / ranks


def server_bytes(size: float, workers: int, servers: int) -> float:
    """Return the bytes that each of S servers sends per step with W workers, and also receives: WK/S.

    `size` is K. Li et al. 2014 ("Scaling Distributed Machine Learning with the Parameter Server", OSDI): every worker
    pushes K bytes of gradients and pulls K bytes of weights, spread evenly over the servers.
    """
    return workers * size / servers


def transfer_seconds(size: float, bandwidth: float) -> float:
    """Return how many seconds it takes to send `size` bytes one way at `bandwidth` bits/s, without latency."""
    return size * 8 / bandwidth


def ring_seconds(size: float, ranks: int, bandwidth: float) -> float:
    """Return the duration in seconds of a ring all-reduce of K bytes, with `bandwidth` bits/s per node and direction.

    The ring visits the ranks node by node, so it crosses each node's link once in each direction.
    """
    return transfer_seconds(all_reduce_bytes(size, ranks), bandwidth)


def server_seconds(size: float, workers: int, servers: int, bandwidth: float) -> float:
    """Return the number of seconds in which W workers push K bytes to S servers and then pull K bytes.

    Each network link has `bandwidth` bits/s. The link with the most traffic decides: a worker's link with K bytes, or a
    server's link with WK/S bytes.
    """
    return 2 * transfer_seconds(max(size, server_bytes(size, workers, servers)), bandwidth)


def communication_share(communication: float, computation: float) -> float:
    """Return the share of a step (0 to 1) that communication takes if it does not overlap with computation."""
    return communication / (communication + computation)


def job_mtbf(part_mtbf: float, parts: int) -> float:
    """Return a job's mean time between failures, in the unit of `part_mtbf`.

    `part_mtbf` is the mean time between failures of one part, for example of one GPU. If one part fails, the whole job
    fails.

    Example: from the failure rate of their GPUs, Kokolis et al. 2024 (arXiv:2410.21680) expect a mean time of 1.8 hours
    for jobs with 16,384 GPUs, and of 0.23 hours for jobs with 131,072 GPUs.
    """
    return part_mtbf / parts


def checkpoint_interval(cost: float, mtbf: float) -> float:
    """Return the time between two checkpoints that minimizes the time lost by checkpoints and failures.

    This is the higher order estimate of Daly 2006 ("A higher order estimate of the optimum checkpoint interval for
    restart dumps", FGCS 22). To first order this is sqrt(2 cost MTBF), from Young 1974 ("A first order approximation to
    the optimum checkpoint interval", CACM 17). `cost` is the time for which a checkpoint stops the training, and `mtbf`
    is the mean time between failures. `cost`, `mtbf` and the result have the same unit.
    """
    if cost >= 2 * mtbf:
        return mtbf
    ratio = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + ratio / 3 + ratio**2 / 9) - cost


def checkpoint_bytes(parameters: int, optimizer: str) -> int:
    """Return the number of bytes of the weights and of the optimizer's state, both in fp32.

    For each parameter, sgd and lars store one momentum, and adam and lamb store two moments (Kingma and Ba 2014,
    arXiv:1412.6980).
    """
    states = {"sgd": 1, "adam": 2, "lars": 1, "lamb": 2}[optimizer]
    return parameters * BYTES_PER_NUMBER * (1 + states)
