"""Runs in a framework's image: make steps of each optimizer with given gradients, and compute losses.

It runs as a single process.

The arguments are the framework, the decay of the moving average, the label smoothing, and one or more weight decays.
The input is /out/given.npz. The input contains the initial weights `matrix` and `bias` of a dense layer, their
gradients in each step, and logits with labels and sample weights. The output is /out/found.npz. The output contains the
weights and the moving averages after each step, and the losses.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from distrain_trainer.config import Config, parse
from distrain_trainer.data import Batch
from distrain_trainer.recipe import OPTIMIZERS

RATE = 0.5
Arrays = dict[str, Any]
# A function that makes a step with given gradients. It returns the weights and the moving averages.
Step = Callable[[Arrays], tuple[Arrays, Arrays]]


def pytorch(config: Config, start: Arrays) -> Step:
    import torch

    from distrain_trainer.pytorch.ema import Ema
    from distrain_trainer.pytorch.optimizers import begin_momentum, make_optimizer
    from distrain_trainer.pytorch.training import make_step_if_finite

    model = torch.nn.Linear(*start["matrix"].shape[::-1])
    weights = {"matrix": model.weight, "bias": model.bias}
    for name, weight in weights.items():
        weight.data.copy_(torch.from_numpy(start[name]))
    optimizer, ema = make_optimizer(config, model), Ema(config, model)
    begin_momentum(optimizer)
    ema.begin(0)

    def step(gradients: Arrays) -> tuple[Arrays, Arrays]:
        for group in optimizer.param_groups:
            group["lr"] = RATE
        for name, weight in weights.items():
            weight.grad = torch.from_numpy(gradients[name])
        make_step_if_finite(optimizer)
        ema.update()
        averages = {"matrix": ema.averages["weight"], "bias": ema.averages["bias"]}
        return {name: weight.detach().numpy().copy() for name, weight in weights.items()}, averages

    return step


def mxnet(config: Config, start: Arrays) -> Step:
    import mxnet as mx

    from distrain_trainer.mxnet.ema import Ema
    from distrain_trainer.mxnet.optimizers import exempt_from_decay, make_optimizer
    from distrain_trainer.mxnet.state import named

    units, inputs = start["matrix"].shape
    model = mx.gluon.nn.Dense(units, in_units=inputs)
    model.initialize()
    weights = {"matrix": model.weight, "bias": model.bias}
    for name, weight in weights.items():
        weight.set_data(mx.nd.array(start[name]))
    exempt_from_decay(weights.values())
    trainer, ema = (
        mx.gluon.Trainer(model.collect_params(), make_optimizer(config), kvstore=None),
        Ema(config, named(model)),
    )
    ema.begin(0)
    trainer.set_learning_rate(RATE)

    def step(gradients: Arrays) -> tuple[Arrays, Arrays]:
        with mx.autograd.record():
            loss = sum((weight.data() * mx.nd.array(gradients[name])).sum() for name, weight in weights.items())
        loss.backward()
        trainer.step(1)
        ema.update()
        averages = {"matrix": ema.averages["weight"].asnumpy(), "bias": ema.averages["bias"].asnumpy()}
        return {name: weight.data().asnumpy() for name, weight in weights.items()}, averages

    return step


def tensorflow(config: Config, start: Arrays) -> Step:
    import tensorflow as tf

    from distrain_trainer.tensorflow.ema import Ema
    from distrain_trainer.tensorflow.optimizers import make_optimizer, with_decay

    model = tf.keras.Sequential(
        [tf.keras.layers.Input(start["matrix"].shape[:1]), tf.keras.layers.Dense(start["matrix"].shape[1])]
    )
    weights = dict(zip(("matrix", "bias"), model.trainable_variables, strict=True))
    for name, weight in weights.items():
        weight.assign(start[name])
    optimizer, ema = make_optimizer(config, model.trainable_variables), Ema(config, model)
    optimizer.build(model.trainable_variables)
    optimizer.learning_rate = RATE
    ema.begin(0)

    @tf.function  # type: ignore[untyped-decorator]
    def change(gradients: Any) -> None:
        variables = model.trainable_variables
        optimizer.apply_gradients(list(zip(with_decay(config, gradients, variables), variables, strict=True)))

    def step(gradients: Arrays) -> tuple[Arrays, Arrays]:
        change([tf.constant(gradients[name]) for name in weights])
        ema.update()
        averages = dict(zip(weights, [each.numpy() for each in ema.averages], strict=False))
        return {name: weight.numpy() for name, weight in weights.items()}, averages

    return step


def loss_of_pytorch(batch: Batch, smoothing: float) -> float:
    import torch

    from distrain_trainer.pytorch.batches import TensorBatch
    from distrain_trainer.pytorch.training import Computer

    computer = Computer(torch.device("cpu"), torch.float32, label_smoothing=smoothing)
    return float(computer.loss(torch.nn.Flatten(), TensorBatch.of(batch)))


def loss_of_mxnet(batch: Batch, smoothing: float) -> float:
    import mxnet as mx

    from distrain_trainer.mxnet.batches import DeviceBatch
    from distrain_trainer.mxnet.training import Loss

    given = DeviceBatch.of(batch, mx.cpu())
    return float(Loss(mx.gluon.nn.Flatten(), smoothing)(given.images, given.labels, given.weights).asscalar())


def loss_of_tensorflow(batch: Batch, smoothing: float) -> float:
    import tensorflow as tf

    from distrain_trainer.tensorflow.training import forward_of, loss_of

    model = tf.keras.Sequential([tf.keras.layers.Input(batch.images.shape[1:]), tf.keras.layers.Flatten()])
    forward = forward_of(model, is_compiled=False)
    return float(loss_of(forward, batch.images, batch.labels, batch.weights, label_smoothing=smoothing))


def main() -> None:
    framework, ema, smoothing, *decays = sys.argv[1:]
    given, found = np.load("/out/given.npz"), {}
    # This model only flattens images. So its logits are the pixels of the images.
    images = given["logits"][:, np.newaxis, np.newaxis]
    batch = Batch(images, given["labels"], given["weights"], samples=len(images), global_samples=len(images))
    for each in ("0", smoothing):
        found[f"loss-{each}"] = np.array(globals()[f"loss_of_{framework}"](batch, float(each)))
    start = {name: given[name] for name in ("matrix", "bias")}
    for optimizer, decay in itertools.product(OPTIMIZERS, decays):
        arguments = [f"--framework={framework}", "--steps=1", f"--ema={ema}", f"--weight-decay={decay}"]
        step = globals()[framework](parse([*arguments, f"--optimizer={optimizer}"]), start)
        for number in range(int(given["steps"])):
            weights, averages = step({name: given[f"{name}-{number}"] for name in start})
            told = {**weights, **{f"average-{name}": average for name, average in averages.items()}}
            found |= {f"{optimizer}-{decay}-{name}-{number}": np.array(array) for name, array in told.items()}
    np.savez("/out/found.npz", **found)


main()
