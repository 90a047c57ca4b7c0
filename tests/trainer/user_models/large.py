"""Models of 256 MiB, one for each framework.

The optimizer keeps a momentum for each weight, so the state has 512 MiB.
"""

from __future__ import annotations

from math import prod
from typing import Any

NUMBERS = 64 * 1024**2


def torch_net(shape: Any, classes: int) -> Any:
    from torch import nn

    size = prod(shape)
    return nn.Sequential(
        nn.Flatten(), *layers(lambda: nn.Linear(size, size, bias=False), size), nn.Linear(size, classes)
    )


def keras_net(shape: Any, classes: int) -> Any:
    from tensorflow.keras import Sequential
    from tensorflow.keras import layers as keras

    size = prod(shape)
    dense = layers(lambda: keras.Dense(size, use_bias=False), size)
    return Sequential([keras.Input(shape), keras.Flatten(), *dense, keras.Dense(classes)])


def gluon_net(shape: Any, classes: int) -> Any:
    from mxnet.gluon import nn

    size, model = prod(shape), nn.HybridSequential()
    model.add(nn.Flatten(), *layers(lambda: nn.Dense(size, use_bias=False, in_units=size), size), nn.Dense(classes))
    return model


def layers(make: Any, size: int) -> list[Any]:
    """Return layers that have NUMBERS weights in total."""
    return [make() for _ in range(round(NUMBERS / size**2))]
