"""Run inside an image: train a user's model in a framework's plain loop, and print the microseconds per step.

`bare_loop.py FRAMEWORK STEPS` trains the same model as the trainer, `small.net`, on one batch of one image. The loop
checks, logs, saves and exchanges nothing. It times the steps in equal parts, and prints the median part.
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


def pytorch() -> tuple[Callable[[], Any], Callable[[], None]]:
    import torch

    model = net(SHAPE, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    images, labels = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(LABELS)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step, lambda: None


def tensorflow() -> tuple[Callable[[], Any], Callable[[], None]]:
    import tensorflow as tf

    model, optimizer = net(SHAPE, CLASSES), tf.keras.optimizers.SGD(1e-4, momentum=0.9)
    optimizer.build(model.trainable_variables)
    images, labels = tf.constant(IMAGES), tf.constant(LABELS)

    def train(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    compiled = tf.function(train)
    return lambda: compiled(images, labels), lambda: None


def mxnet() -> tuple[Callable[[], Any], Callable[[], None]]:
    import mxnet as mx

    model = net(SHAPE, CLASSES)
    model.initialize()
    model.hybridize(static_alloc=True)
    trainer = mx.gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 1e-4, "momentum": 0.9}, kvstore=None)
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    images, labels = mx.nd.array(IMAGES.transpose(0, 3, 1, 2)), mx.nd.array(LABELS)

    def step() -> None:
        with mx.autograd.record():
            loss = cross_entropy(model(images), labels)
        loss.backward()
        trainer.step(1)

    return step, mx.nd.waitall


def main() -> None:
    step, wait = {"pytorch": pytorch, "tensorflow": tensorflow, "mxnet": mxnet}[sys.argv[1]]()
    steps = int(sys.argv[2]) // PARTS
    print(f"microseconds per step: {median(seconds(step, wait, steps) for _ in range(PARTS)) / steps * 1e6:.1f}")


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
