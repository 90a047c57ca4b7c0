"""A model for TensorFlow or PyTorch whose state gets an additional array in the first training step.

Tests put this folder on PYTHONPATH.
"""

from __future__ import annotations

import importlib.util
from math import prod
from typing import Any


def net(shape: tuple[int, ...], classes: int) -> Any:
    return keras_net(shape, classes) if importlib.util.find_spec("tensorflow") else torch_net(shape, classes)


def keras_net(shape: tuple[int, ...], classes: int) -> Any:
    from tensorflow.keras import Sequential, layers

    class Late(layers.Layer):
        late = None

        def call(self, images: Any, training: bool = False) -> Any:
            if training:
                if self.late is None:
                    self.late = self.add_weight(name="late", shape=(), initializer="zeros", trainable=False)
                self.late.assign_add(1.0)
            return images

    return Sequential([layers.Input(shape), Late(), layers.Flatten(), layers.Dense(classes)])


def torch_net(shape: tuple[int, ...], classes: int) -> Any:
    from torch import nn

    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("late", None)

        def forward(self, images: Any) -> Any:
            if self.training:
                self.late = images.mean().detach()
            return images

    return nn.Sequential(Late(), nn.Flatten(), nn.Linear(prod(shape), classes))
