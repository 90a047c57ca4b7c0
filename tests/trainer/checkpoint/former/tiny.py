"""The models with which the checkpoints in this folder were saved, one per framework. They have only a few weights."""

from __future__ import annotations

from typing import Any


def torch_net(shape: Any, classes: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.AvgPool2d(shape[0] // 2), nn.Flatten(), nn.BatchNorm1d(4), nn.Linear(4, classes))


def keras_net(shape: Any, classes: int) -> Any:
    from tensorflow.keras import Sequential, layers

    pool = layers.AveragePooling2D(shape[0] // 2)
    return Sequential([layers.Input(shape), pool, layers.Flatten(), layers.BatchNormalization(), layers.Dense(classes)])


def gluon_net(shape: Any, classes: int) -> Any:
    from mxnet.gluon import nn

    model = nn.HybridSequential()
    model.add(nn.AvgPool2D(shape[0] // 2), nn.Flatten(), nn.BatchNorm(in_channels=4), nn.Dense(classes, in_units=4))
    return model
