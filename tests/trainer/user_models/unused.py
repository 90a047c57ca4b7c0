"""A model with a dense layer that its forward pass never calls. Tests put this folder on PYTHONPATH."""

from __future__ import annotations

import importlib.util
from math import prod
from typing import Any


def net(shape: tuple[int, ...], classes: int) -> Any:
    makers = {"tensorflow": keras_net, "torch": torch_net, "mxnet": gluon_net}
    [make] = [make for name, make in makers.items() if importlib.util.find_spec(name)]
    return make(shape, classes)


def keras_net(shape: tuple[int, ...], classes: int) -> Any:
    import tensorflow as tf

    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.flatten = tf.keras.layers.Flatten()
            self.used, self.unused = tf.keras.layers.Dense(classes), tf.keras.layers.Dense(classes)
            self.unused.build((None, prod(shape)))

        def call(self, images: Any, training: bool = False) -> Any:
            return self.used(self.flatten(images))

    return Net()


def torch_net(shape: tuple[int, ...], classes: int) -> Any:
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(prod(shape), classes), nn.Linear(prod(shape), classes)

        def forward(self, images: Any) -> Any:
            return self.used(images.flatten(1))

    return Net()


def gluon_net(shape: tuple[int, ...], classes: int) -> Any:
    from mxnet.gluon import nn

    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.flatten = nn.Flatten()
            self.used, self.unused = (nn.Dense(classes, in_units=prod(shape)) for _ in range(2))

        def hybrid_forward(self, F: Any, images: Any) -> Any:  # noqa: N803
            return self.used(self.flatten(images))

    return Net()
