"""The models, for MXNet: Gluon blocks that take images in 0..1, channels first, and return a logit per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mxnet as mx
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision

from distrain_trainer.models import user


def build(name: str, *, shape: tuple[int, ...], classes: int, devices: Sequence[Any] = ()) -> Any:
    """Return an untrained model of the given name on the devices, for images of a shape (height, width, channels).

    Raises ArgumentError when a user's own is none, or does not fit the data.
    """
    if user.is_users(name):
        model = _users(name, shape, classes)
    else:
        model = {"mnist": _mnist, "resnet50": _resnet50, "vgg16": _vgg16}[name](shape, classes)
    # Gluon learns the layers' sizes from images. Not by a forward pass: that leaves the weights in a layout of
    # oneDNN's, which neither Horovod nor a parameter server can send.
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
    """Return a batch's images as the models take them: on the device, and channels before height and width."""
    return mx.nd.array(images, ctx=device).transpose((0, 3, 1, 2))


def count_parameters(model: Any) -> int:
    """Return how many numbers are trained."""
    trained = [each for each in model.collect_params().values() if each.grad_req != "null"]
    return sum(each.data().size for each in trained)


def _mnist(shape: tuple[int, ...], classes: int) -> Any:
    """A small CNN, for images of any size from 4x4."""
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
    """ResNet50 as published (He et al. 2015), 25.56 million parameters at 224x224x3 and 1000 classes.

    Gluon's 1x1 convolutions have a bias beside their batch normalization, 18 880 parameters more.
    """
    return vision.resnet50_v1(classes=classes)


def _vgg16(shape: tuple[int, ...], classes: int) -> Any:
    """VGG16 as published (Simonyan and Zisserman 2014): 138.36 million parameters at 224x224x3 and 1000 classes."""
    return vision.vgg16(classes=classes)
