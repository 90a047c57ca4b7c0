"""What a Keras model and its optimizer keep from step to step, as arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from distrain_trainer.checkpoint import arrays
from distrain_trainer.checkpoint.manifest import Shapes


class KerasState:
    """The variables of a model and of its optimizer."""

    file = "state.npz"

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._variables = {f"model-{number}": variable for number, variable in enumerate(model.variables)}
        self._variables |= {f"optimizer-{number}": each for number, each in enumerate(optimizer.variables)}
        if isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
            # Its variables are the inner optimizer's alone.
            self._variables |= {"scale": optimizer._loss_scale, "scale-steps": optimizer.dynamic_counter}

    def shapes(self) -> Shapes:
        return arrays.shapes(self._variables)

    def copy(self) -> Callable[[], bytes]:
        copied = {name: variable.numpy() for name, variable in self._variables.items()}
        return functools.partial(arrays.encode, copied)

    def load(self, content: bytes) -> None:
        for name, value in arrays.decode(content).items():
            self._variables[name].assign(value)
