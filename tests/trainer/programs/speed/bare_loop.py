"""Runs inside an image: train a user's model in a plain loop of the framework, and print the microseconds per step.

`bare_loop.py PROGRAM STEPS` trains `small.net`, the same model as the trainer's program, on a single batch with one
image. This loop does not check, log or save anything. If there are several ranks, the loop averages their gradients in
the same way as the trainer's program, and rank 0 prints. The loop divides the steps into equal parts, times each part,
and prints the median.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

SHAPE, CLASSES, PARTS, UNTIMED = (4, 4, 3), 10, 5, 50
net = importlib.import_module("small").net
IMAGES, LABELS = np.random.default_rng(1).random((1, *SHAPE), dtype=np.float32), np.zeros(1, dtype=np.int64)


Step = Callable[[], Any]
Wait = Callable[[], None]


def pytorch_ddp() -> tuple[Step, Wait, int]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = net(SHAPE, CLASSES)
    if dist.get_world_size() > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    return step_of_pytorch(model, optimizer_of_pytorch(model)), lambda: None, dist.get_rank()


def pytorch_horovod() -> tuple[Step, Wait, int]:
    import horovod.torch as hvd

    hvd.init()
    model = net(SHAPE, CLASSES)
    optimizer = optimizer_of_pytorch(model)
    if hvd.size() > 1:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return step_of_pytorch(model, optimizer), lambda: None, hvd.rank()


def optimizer_of_pytorch(model: Any) -> Any:
    import torch

    return torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)


def step_of_pytorch(model: Any, optimizer: Any) -> Step:
    import torch

    images, labels = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(LABELS)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def tensorflow_horovod() -> tuple[Step, Wait, int]:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    model, optimizer = net(SHAPE, CLASSES), tf.keras.optimizers.SGD(1e-4, momentum=0.9)
    optimizer.build(model.trainable_variables)
    images, labels = tf.constant(IMAGES), tf.constant(LABELS)

    def train(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        if hvd.size() > 1:
            tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    compiled = tf.function(train)
    return lambda: compiled(images, labels), lambda: None, hvd.rank()


def mxnet_horovod() -> tuple[Step, Wait, int]:
    import horovod.mxnet as hvd
    import mxnet as mx

    hvd.init()
    model = net(SHAPE, CLASSES)
    model.initialize()
    model.hybridize(static_alloc=True)
    images, labels = mx.nd.array(IMAGES.transpose(0, 3, 1, 2)), mx.nd.array(LABELS)
    model(images)  # This forward pass makes Gluon infer the shapes of the weights.
    # If there is only one rank, DistributedTrainer exchanges nothing.
    trainer = hvd.DistributedTrainer(model.collect_params(), "sgd", {"learning_rate": 1e-4, "momentum": 0.9})
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step() -> None:
        with mx.autograd.record():
            loss = cross_entropy(model(images), labels)
        loss.backward()
        trainer.step(1)

    return step, mx.nd.waitall, hvd.rank()


PROGRAMS = {each.__name__: each for each in (pytorch_ddp, pytorch_horovod, tensorflow_horovod, mxnet_horovod)}


def main() -> None:
    step, wait, rank = PROGRAMS[sys.argv[1].replace("-", "_")]()
    steps = int(sys.argv[2]) // PARTS
    figure = median(seconds(step, wait, steps) for _ in range(PARTS)) / steps * 1e6
    if rank == 0:
        print(f"microseconds per step: {figure:.1f}")


def seconds(step: Callable[[], Any], wait: Callable[[], None], steps: int) -> float:
    for _ in range(UNTIMED):
        step()
    wait()
    begun = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
