"""Build models for MXNet.

Each model is a Gluon block. The block maps images (values from 0 to 1, channels first) to one logit per class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

from distrain_trainer.models import MODELS, user
from distrain_trainer.models.description import Convolution, Dense, Dropout, Flatten, Layer, MaxPooling, Model, Shape
from distrain_trainer.mxnet import private


def build(name: str, *, shape: Shape, classes: int, devices: Sequence[Any] = ()) -> Any:
    """Build the untrained model `name` on the devices, for images of `shape` (height, width, channels).

    Raises ArgumentError when a user's function returns no model, or a model that does not fit the data.
    """
    model = _users(name, shape, classes) if user.is_users(name) else _included(MODELS[name], classes)
    # Gluon infers the layers' sizes from the images' shape. A forward pass would infer them too, but it leaves the
    # weights in a memory layout of oneDNN, which neither Horovod nor a parameter server can send.
    height, width, channels = shape
    model.infer_shape(mx.nd.zeros((1, channels, height, width)))
    model.initialize(mx.init.Xavier(), ctx=list(devices) or [mx.cpu()])
    return model


def _users(name: str, shape: Shape, classes: int) -> Any:
    model = user.build(name, shape=shape, classes=classes, kind=mx.gluon.HybridBlock, kind_name="HybridBlock")
    height, width, channels = shape

    def output_shape() -> tuple[int, ...]:
        _, [shape_of_one], _ = model(mx.sym.var("data")).infer_shape(data=(1, channels, height, width))
        return tuple(shape_of_one)

    user.require_logits(name, shape=shape, classes=classes, forward=output_shape)
    used = set(model(mx.sym.var("data")).list_inputs())
    by_path = private.parameters_by_path(model)
    user.require_used(name, by_path, {path for path, each in by_path.items() if each.name in used})
    return model


def to_model(images: Any, device: Any) -> Any:
    """Copy the images of a batch to the device, with the axis of channels before height and width."""
    return mx.nd.array(images, ctx=device).transpose((0, 3, 1, 2))


def _included(model: Model, classes: int) -> Any:
    if model.gluon:
        return _with_blocks_off(getattr(vision, model.gluon)(classes=classes))
    block = nn.HybridSequential()
    block.add(*(_layer(layer) for layer in model.layers), nn.Dense(classes))
    return block


def _with_blocks_off(block: Any) -> Any:
    """Let the scale of the last normalization in each residual block start at 0."""

    def change(part: Any) -> None:
        if isinstance(part, vision.BottleneckV1):
            part.body[-1].gamma.init = mx.init.Zero()

    return block.apply(change)


def _layer(layer: Layer) -> Any:
    match layer:
        case Convolution(filters, size, stride=1, is_normalized=False):
            return nn.Conv2D(filters, size, padding=size // 2, activation="relu")
        case MaxPooling(size, stride, padding=0):
            return nn.MaxPool2D(size, stride)
        case Flatten():
            return nn.Flatten()
        case Dropout(rate):
            return nn.Dropout(rate)
        case Dense(units):
            return nn.Dense(units, activation="relu")
    raise TypeError(f"there is no Gluon block for {layer} here; set the model's `gluon`, or add one")
