"""What follows from the size of a run, one formula a function.

Numbers go in and come out: batches count samples, rates are learning rates, K is the bytes of all gradients, times are
seconds. Every argument is above 0 unless it is said otherwise; nothing is rounded that need not be whole. What the
trainer computes at its start it computes alike: distrain_trainer.schedule and distrain_trainer.data.
"""

from __future__ import annotations

import math

# The batch that trainer.learningRate is for: that of Goyal et al. 2017, 8 GPUs of 32 images.
BASE_BATCH = 256
# Gradients travel, and weights are kept, in fp32, whatever trainer.precision is.
BYTES_PER_NUMBER = 4

# Trained parameters of each model at the shape and classes below, by framework: VGG16 of Simonyan and Zisserman 2014
# (arXiv:1409.1556) has 138.36 million, ResNet50 of He et al. 2015 (arXiv:1512.03385) 25.56 million; Keras and Gluon put
# biases beside some of its batch normalizations.
VGG16 = 138_357_544
RESNET50 = {"pytorch": 25_557_032, "tensorflow": 25_583_592, "mxnet": 25_575_912}
MNIST = 421_642
SHAPES = {"vgg16": "224x224x3, 1000 classes", "resnet50": "224x224x3, 1000 classes", "mnist": "28x28x1, 10 classes"}

# The data set that each model is commonly trained on, and its training samples.
DATA_SETS = {
    "vgg16": ("ImageNet", 1_281_167),
    "resnet50": ("ImageNet", 1_281_167),
    "mnist": ("MNIST", 60_000),
}

# Images a second of one NVIDIA P100 in fp32, 64 a step: tf_cnn_benchmarks, May 2017, DGX-1, synthetic data
# (tensorflow.org/performance/benchmarks). A faster GPU computes a shorter step, and communication takes more of it.
P100_IMAGES_PER_SECOND = {"vgg16": 154.0, "resnet50": 219.0}

# Days from one failure that ends a job to the next, for one GPU: 6.50 failures in 1000 days of nodes of 8 GPUs, cluster
# RSC-1 of Kokolis et al. 2024 ("Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
# arXiv:2410.21680).
GPU_DAYS_BETWEEN_FAILURES = 8 * 1000 / 6.50
# That cluster is well kept. Where machines fail more often, no more than these seconds are lost.
LONGEST_BETWEEN_CHECKPOINTS = 1800.0


def world_size(workers: int, slots: int) -> int:
    """Return the number of ranks: one per slot (a GPU, or a worker without any) of every worker."""
    return workers * slots


def global_batch(ranks: int, batch_size: int) -> int:
    """Return the samples of one step over all ranks, of `batch_size` each."""
    return ranks * batch_size


def scaled_rate(base_rate: float, batch: int) -> float:
    """Return the learning rate for a batch, of the rate for BASE_BATCH samples: k times the batch, k times the rate.

    The linear scaling rule of Goyal et al. 2017 ("Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour",
    arXiv:1706.02677, section 2.1): 0.1 at 256 is 3.2 at 8192.
    """
    return base_rate * batch / BASE_BATCH


def rate_at_step(full_rate: float, step: int, warmup: int) -> float:
    """Return the learning rate of a step, counted from 0, that rises linearly over the first `warmup` (0: none) steps.

    The gradual warm-up of Goyal et al. 2017, section 2.2, here from 0 and not from the base rate, so that it rises for
    batches below the base as well.
    """
    return full_rate * min(1.0, (step + 1) / warmup) if warmup else full_rate


def steps_per_epoch(samples: int, batch: int) -> int:
    """Return the steps in which all ranks together see every sample once; the last one may be smaller.

    ImageNet's 1 281 167 images at a batch of 256 are the 5005 of each epoch in the log of PyTorch's ImageNet example.
    """
    return math.ceil(samples / batch)


def gradient_bytes(parameters: int) -> int:
    """Return K, the bytes of all gradients of a step, which are as many as the trained parameters, in fp32."""
    return parameters * BYTES_PER_NUMBER


def all_reduce_bytes(size: float, ranks: int) -> float:
    """Return the bytes that each of N ranks sends in a step, and receives as well: 2(N-1)K/N; 0 for one rank.

    Patarasuk and Yuan 2009 ("Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69): a ring
    adds up N parts of K/N bytes in N-1 rounds and passes the sums on in N-1 more, and no algorithm sends less. It stays
    below 2K however many ranks there are.
    """
    return 2 * (ranks - 1) * size / ranks


def server_bytes(size: float, workers: int, servers: int) -> float:
    """Return the bytes that each of S servers sends in a step of W workers, and receives as well: WK/S.

    Li et al. 2014 ("Scaling Distributed Machine Learning with the Parameter Server", OSDI): every worker pushes K bytes
    of gradients and pulls K bytes of weights, shared out evenly among the servers.
    """
    return workers * size / servers


def transfer_seconds(size: float, bandwidth: float) -> float:
    """Return the seconds that `size` bytes take one way at `bandwidth` bits a second, latency left out."""
    return size * 8 / bandwidth


def ring_seconds(size: float, ranks: int, bandwidth: float) -> float:
    """Return the seconds of an all-reduce of K bytes over a ring in which each node sends and receives at `bandwidth`.

    A ring that goes through one node's ranks after another's crosses each node's link once in each direction.
    """
    return transfer_seconds(all_reduce_bytes(size, ranks), bandwidth)


def server_seconds(size: float, workers: int, servers: int, bandwidth: float) -> float:
    """Return the seconds in which W workers push K bytes to S servers and then pull as many, every link at `bandwidth`.

    The busiest link decides: a worker's with K bytes, or a server's with WK/S.
    """
    return 2 * transfer_seconds(max(size, server_bytes(size, workers, servers)), bandwidth)


def communication_share(communication: float, computation: float) -> float:
    """Return the share, 0 to 1, of a step that communication takes when nothing of it overlaps with computation."""
    return communication / (communication + computation)


def job_mtbf(part_mtbf: float, parts: int) -> float:
    """Return the mean time from one failure of a job to the next, in the unit of the part's: parts fail one by one.

    Kokolis et al. 2024 (arXiv:2410.21680) expect 1.8 hours of a job of 16 384 GPUs at their rate, 0.23 of 131 072.
    """
    return part_mtbf / parts


def checkpoint_interval(cost: float, mtbf: float) -> float:
    """Return the time of work between two checkpoints that loses least, all in one unit.

    The higher order estimate of Daly 2006 ("A higher order estimate of the optimum checkpoint interval for restart
    dumps", FGCS 22), whose first order is the sqrt(2 cost MTBF) of Young 1974 ("A first order approximation to the
    optimum checkpoint interval", CACM 17). `cost` is the time that the work stands still, `mtbf` that between failures.
    """
    if cost >= 2 * mtbf:
        return mtbf
    ratio = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + ratio / 3 + ratio**2 / 9) - cost


def checkpoint_bytes(parameters: int, optimizer: str) -> int:
    """Return the bytes of the weights and of the optimizer's state, in fp32.

    sgd keeps a momentum for each parameter, adam two (Kingma and Ba 2014, arXiv:1412.6980).
    """
    states = {"sgd": 1, "adam": 2}[optimizer]
    return parameters * BYTES_PER_NUMBER * (1 + states)


def parameters_of(model: str, framework: str) -> int | None:
    """Return the parameters that are trained of a model at its SHAPES, None for a user's own."""
    if model == "resnet50":
        return RESNET50[framework]
    return {"vgg16": VGG16, "mnist": MNIST}.get(model)
