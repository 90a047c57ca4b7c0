"""Models whose gradients overflow in fp16 until the loss scale has been reduced.

Tests put this folder on PYTHONPATH.
"""

from __future__ import annotations

from math import prod
from typing import Any

# Images are multiplied by this factor. Then gradients in fp16 overflow with the initial loss scale of each framework.
LARGE = 16


def keras_net(shape: Any, classes: int) -> Any:
    from tensorflow.keras import Sequential, layers

    return Sequential([layers.Input(shape), layers.Rescaling(LARGE), layers.Flatten(), layers.Dense(classes)])


def torch_net(shape: Any, classes: int) -> Any:
    from torch import nn

    class Large(nn.Module):
        def forward(self, images: Any) -> Any:
            return LARGE * images

    return nn.Sequential(Large(), nn.Flatten(), nn.Linear(prod(shape), classes))


def gluon_net(shape: Any, classes: int) -> Any:
    from mxnet.gluon import nn

    class Product(nn.HybridBlock):
        """A dense layer that does not use a matrix product, because MXNet has none in fp16 on the CPU."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(prod(shape), classes))

        def hybrid_forward(self, F: Any, images: Any, weight: Any) -> Any:  # noqa: N803
            images, weight = LARGE * images.expand_dims(2), weight.expand_dims(0)
            product = F.broadcast_mul(F.cast(images, "float16"), F.cast(weight, "float16"))
            return F.sum(F.cast(product, "float32"), axis=1)

    model = nn.HybridSequential()
    model.add(nn.Flatten(), Product())
    return model
