"""Count the parameters and multiplications of each layer of a model, in the order of the forward pass.

From these counts, the plugin predicts when the backward pass has computed each gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from distrain_trainer.models.description import Bottlenecks, Convolution, Dense, Model, Shape

# A layer: its trainable parameters, and its multiplications per image.
Counted = tuple[int, int]


def counted(model: Model) -> list[Counted]:
    """Return the layers that have parameters.

    A residual block is treated as one layer. The last layer is the classifier.
    """
    return list(_layers(model))


def _layers(model: Model) -> Iterator[Counted]:
    shape: Shape = model.shape
    for layer in model.layers:
        if isinstance(layer, Convolution):
            yield _convolution(layer, shape)
        elif isinstance(layer, Bottlenecks):
            yield from _bottlenecks(layer, shape)
        elif isinstance(layer, Dense):
            yield _dense(math.prod(shape), layer.units)
        shape = layer.output(shape)
    if model.layers:
        yield _dense(math.prod(shape), model.classes)


def _convolution(layer: Convolution, shape: Shape) -> Counted:
    height, width, _ = layer.output(shape)
    weights = layer.size**2 * shape[2] * layer.filters
    # Batch normalization has a scale and a shift instead of a bias.
    return weights + layer.filters * (2 if layer.is_normalized else 1), weights * height * width


def _bottlenecks(layer: Bottlenecks, shape: Shape) -> Iterator[Counted]:
    for number in range(layer.blocks):
        stride, wide = (layer.stride, 4 * layer.width) if not number else (1, 4 * layer.width)
        parts = [Convolution(layer.width, 1), Convolution(layer.width, 3, stride), Convolution(wide, 1)]
        shortcut = [_normalized(Convolution(wide, 1, stride), shape)] if not number else []
        for part in parts:
            shortcut.append(_normalized(part, shape))
            shape = part.output(shape)
        yield sum(each for each, _ in shortcut), sum(work for _, work in shortcut)


def _normalized(layer: Convolution, shape: Shape) -> Counted:
    return _convolution(Convolution(layer.filters, layer.size, layer.stride, is_normalized=True), shape)


def _dense(inputs: int, units: int) -> Counted:
    return inputs * units + units, inputs * units
