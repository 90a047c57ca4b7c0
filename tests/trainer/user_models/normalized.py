"""A model with batch normalization, for whichever framework is installed. Tests put this folder on PYTHONPATH."""

from __future__ import annotations

import importlib.util
from typing import Any


def net(shape: tuple[int, int, int], classes: int) -> Any:
    if importlib.util.find_spec("tensorflow"):
        from tensorflow.keras import Sequential, layers

        counted = importlib.import_module("counted")
        first = (counted.Counted(), layers.BatchNormalization(momentum=0.9))
        return Sequential([layers.Input(shape), *first, layers.Flatten(), layers.Dense(classes)])
    if importlib.util.find_spec("torch"):
        from torch import nn

        height, width, channels = shape
        return nn.Sequential(nn.BatchNorm2d(channels), nn.Flatten(), nn.Linear(height * width * channels, classes))
    from mxnet.gluon import nn as gluon

    model = gluon.HybridSequential()
    model.add(gluon.BatchNorm(), gluon.Flatten(), gluon.Dense(classes))
    return model
