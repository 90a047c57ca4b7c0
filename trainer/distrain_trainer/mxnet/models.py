"""Build models for MXNet. A Gluon block maps images with values in 0..1, channels first, to one logit per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

from distrain_trainer.models import user


def build(name: str, *, shape: tuple[int, ...], classes: int, devices: Sequence[Any] = ()) -> Any:
    """Build the untrained model `name` on the devices, for images of `shape` (height, width, channels).

    Raises ArgumentError when a user's function returns no model, or a model that does not fit the data.
    """
    if user.is_users(name):
        model = _users(name, shape, classes)
    else:
        model = {"mnist": _mnist, "resnet50": _resnet50, "vgg16": _vgg16}[name](shape, classes)
    # Gluon infers the layers' sizes from the images' shape. A forward pass would do so too, but it leaves the weights
    # in a memory layout of oneDNN, which neither Horovod nor a parameter server can send.
    height, width, channels = shape
    model.infer_shape(mx.nd.zeros((1, channels, height, width)))
    model.initialize(mx.init.Xavier(), ctx=list(devices) or [mx.cpu()])
    return model


def _users(name: str, shape: tuple[int, ...], classes: int) -> Any:
    model = user.build(name, shape=shape, classes=classes, kind=mx.gluon.HybridBlock, kind_name="HybridBlock")
    height, width, channels = shape

    def output_shape() -> tuple[int, ...]:
        _, [shape_of_one], _ = model(mx.sym.var("data")).infer_shape(data=(1, channels, height, width))
        return tuple(shape_of_one)

    user.require_logits(name, shape=shape, classes=classes, forward=output_shape)
    return model


def to_model(images: Any, device: Any) -> Any:
    """Copy a batch's images to the device, with the channels before height and width."""
    return mx.nd.array(images, ctx=device).transpose((0, 3, 1, 2))


def count_parameters(model: Any) -> int:
    """Count the trainable parameters."""
    trained = [each for each in model.collect_params().values() if each.grad_req != "null"]
    return sum(each.data().size for each in trained)


def _mnist(shape: tuple[int, ...], classes: int) -> Any:
    """Build a small CNN for images of 4x4 pixels or more."""
    model = nn.HybridSequential()
    model.add(
        nn.Conv2D(32, 3, padding=1, activation="relu"),
        nn.MaxPool2D(),
        nn.Conv2D(64, 3, padding=1, activation="relu"),
        nn.MaxPool2D(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Dense(128, activation="relu"),
        nn.Dense(classes),
    )
    return model


def _resnet50(shape: tuple[int, ...], classes: int) -> Any:
    """Build ResNet50 (He et al. 2015), 25.56 million parameters at 224x224x3 and 1000 classes.

    Gluon adds biases to the 1x1 convolutions before batch normalization, 18 880 parameters more than published.
    """
    return vision.resnet50_v1(classes=classes)


def _vgg16(shape: tuple[int, ...], classes: int) -> Any:
    """Build VGG16 (Simonyan and Zisserman 2014), 138.36 million parameters at 224x224x3 and 1000 classes."""
    return vision.vgg16(classes=classes)
