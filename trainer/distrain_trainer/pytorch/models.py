"""Build models for PyTorch. A model maps images with values in 0..1, channels first, to one logit per class."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from distrain_trainer.models import user

VGG16_CONVOLUTIONS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
# Per stage: the number of blocks, the width inside a block, and the stride of the first block.
RESNET50_STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))


def build(name: str, *, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Build the model `name` for images of `shape` (height, width, channels).

    Raises ArgumentError when a user's function returns no model, or a model that does not fit the data.
    """
    if user.is_users(name):
        return _users(name, shape, classes)
    return {"mnist": _mnist, "resnet50": _resnet50, "vgg16": _vgg16}[name](shape, classes)


def _users(name: str, shape: tuple[int, int, int], classes: int) -> nn.Module:
    model: nn.Module = user.build(name, shape=shape, classes=classes, kind=nn.Module, kind_name="torch.nn.Module")
    height, width, channels = shape

    def output_shape() -> tuple[int, ...]:
        with torch.no_grad():
            return tuple(model.eval()(torch.zeros(1, channels, height, width)).shape)

    user.require_logits(name, shape=shape, classes=classes, forward=output_shape)
    return model.train()


def _mnist(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Build a small CNN for images of 4x4 pixels or more."""
    height, width, channels = shape
    return nn.Sequential(
        nn.Conv2d(channels, 32, 3, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64 * (height // 4) * (width // 4), 128),
        nn.ReLU(),
        nn.Linear(128, classes),
    )


def _vgg16(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Build VGG16 (Simonyan and Zisserman 2014), 138.36 million parameters at 224x224x3 and 1000 classes."""
    height, width, channels = shape
    layers: list[nn.Module] = []
    for stage in VGG16_CONVOLUTIONS:
        for filters in stage:
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU(inplace=True)]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for inputs in (channels * (height // 32) * (width // 32), 4096):
        layers += [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    return _initialized(nn.Sequential(*layers, nn.Linear(4096, classes)))


def _resnet50(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Build ResNet50 (He et al. 2015), 25.56 million parameters at 224x224x3 and 1000 classes.

    A block's stride is in its 3x3 convolution, as in the ResNet50 of the training benchmarks.
    """
    layers = [_convolution(shape[2], 64, size=7, stride=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for blocks, width, stride in RESNET50_STAGES:
        for block in range(blocks):
            layers.append(_Bottleneck(channels, width, stride=stride if block == 0 else 1))
            channels = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return _initialized(nn.Sequential(*layers))


class _Bottleneck(nn.Module):  # type: ignore[misc]  # torch is not installed where types are checked
    """A residual block: three convolutions and a shortcut past them."""

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            _convolution(channels, width, size=1, stride=1),
            nn.ReLU(inplace=True),
            _convolution(width, width, size=3, stride=stride),
            nn.ReLU(inplace=True),
            _convolution(width, 4 * width, size=1, stride=1),
        )
        is_same_shape = channels == 4 * width and stride == 1
        self.shortcut = nn.Identity() if is_same_shape else _convolution(channels, 4 * width, size=1, stride=stride)

    def forward(self, images: torch.Tensor) -> Any:
        return nn.functional.relu(self.convolutions(images) + self.shortcut(images))


def _convolution(channels: int, filters: int, *, size: int, stride: int) -> nn.Module:
    """Build a convolution without bias, followed by batch normalization, which has one."""
    convolution = nn.Conv2d(channels, filters, size, stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters))


def _initialized(model: nn.Module) -> nn.Module:
    """Initialize the weights after He et al. 2015, as VGG16, which has no normalization, would not learn otherwise."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.01)
        if isinstance(layer, (nn.Conv2d, nn.Linear)) and layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model
