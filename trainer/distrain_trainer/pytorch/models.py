"""Build models for PyTorch.

A model maps images (values from 0 to 1, channels first) to one logit per class.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from distrain_trainer.models import MODELS, user
from distrain_trainer.models.description import (
    Bottlenecks,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    Model,
    Shape,
)


def build(name: str, *, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Build the model `name` for images of `shape` (height, width, channels).

    Raises ArgumentError when a user's function returns no model, or a model that does not fit the data.
    """
    if user.is_users(name):
        return _users(name, shape, classes)
    return _included(MODELS[name], shape, classes)


def _users(name: str, shape: tuple[int, int, int], classes: int) -> nn.Module:
    model: nn.Module = user.build(name, shape=shape, classes=classes, kind=nn.Module, kind_name="torch.nn.Module")
    height, width, channels = shape

    def output_shape() -> tuple[int, ...]:
        with torch.no_grad():
            return tuple(model.eval()(torch.zeros(1, channels, height, width)).shape)

    user.require_logits(name, shape=shape, classes=classes, forward=output_shape)
    return model.train()


def _included(model: Model, shape: Shape, classes: int) -> nn.Module:
    modules: list[nn.Module] = []
    for layer in model.layers:
        modules += _modules(layer, shape[-1])
        shape = layer.output(shape)
    built = nn.Sequential(*modules, nn.Linear(shape[-1], classes))
    return _initialized_after_he(built) if model.is_initialized_after_he else built


def _modules(layer: Layer, channels: int) -> list[nn.Module]:
    """Build a layer for an input with `channels` channels or features."""
    match layer:
        case Convolution(filters, size, stride, is_normalized=True):
            return [_normalized(channels, filters, size=size, stride=stride), nn.ReLU(inplace=True)]
        case Convolution(filters, size, stride):
            return [nn.Conv2d(channels, filters, size, stride, padding=size // 2), nn.ReLU(inplace=True)]
        case MaxPooling(size, stride, padding):
            return [nn.MaxPool2d(size, stride, padding)]
        case Bottlenecks(blocks, width, stride):
            first = _Bottleneck(channels, width, stride=stride)
            return [first, *(_Bottleneck(4 * width, width, stride=1) for _ in range(blocks - 1))]
        case GlobalAveragePooling():
            return [nn.AdaptiveAvgPool2d(1)]
        case Flatten():
            return [nn.Flatten()]
        case Dropout(rate):
            return [nn.Dropout(rate)]
        case Dense(units):
            return [nn.Linear(channels, units), nn.ReLU(inplace=True)]


class _Bottleneck(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """A residual block: three convolutions, and a shortcut that bypasses them."""

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            _normalized(channels, width, size=1, stride=1),
            nn.ReLU(inplace=True),
            _normalized(width, width, size=3, stride=stride),
            nn.ReLU(inplace=True),
            _normalized(width, 4 * width, size=1, stride=1),
        )
        is_same_shape = channels == 4 * width and stride == 1
        self.shortcut = nn.Identity() if is_same_shape else _normalized(channels, 4 * width, size=1, stride=stride)

    def forward(self, images: torch.Tensor) -> Any:
        return nn.functional.relu(self.convolutions(images) + self.shortcut(images))


def _normalized(channels: int, filters: int, *, size: int, stride: int) -> nn.Module:
    """Build a convolution followed by batch normalization.

    Batch normalization has a bias, so the convolution needs none.
    """
    convolution = nn.Conv2d(channels, filters, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters))


def _initialized_after_he(model: nn.Module) -> nn.Module:
    """Initialize the weights as in He et al. 2015 (arXiv:1502.01852), and residual blocks as in Goyal et al. 2017."""
    for layer in model.modules():
        if isinstance(layer, _Bottleneck):
            nn.init.zeros_(layer.convolutions[-1][-1].weight)
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model
