"""Save a TensorFlow program's state in checkpoints, and load it."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from distrain_trainer.checkpoint.arrays import Arrays, Cuts, Field, Fields, elements
from distrain_trainer.tensorflow.ema import Ema
from distrain_trainer.tensorflow.private import loss_scale_of, to_host

# Maps the names of the loss scaler's variables in checkpoint format 1 to their current names.
FORMER_SCALE = {"scale": "scaler.scale", "scale-steps": "scaler.scale-steps"}


class KerasState:
    """The variables of a model and of its optimizer, and the moving averages of the model's weights."""

    def __init__(self, model: Any, optimizer: Any, ema: Ema | None = None) -> None:
        self._model, self._ema = model, ema
        rate = getattr(optimizer, "inner_optimizer", optimizer).learning_rate
        self._rate = named("optimizer", [rate])
        self._variables = named("model", model.variables) | named("optimizer", optimizer.variables) | self._rate
        numbered = {f"model-{number}": variable for number, variable in enumerate(model.variables)}
        numbered |= {f"optimizer-{number}": variable for number, variable in enumerate(optimizer.variables)}
        if isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
            # LossScaleOptimizer.variables contains only the variables of the optimizer that it wraps.
            scale = {"scale": loss_scale_of(optimizer), "scale-steps": optimizer.dynamic_counter}
            self._variables |= {f"scaler.{name}": variable for name, variable in scale.items()}
        if ema is not None:
            of_weights = named("ema", ema.weights)
            self._variables |= dict(zip(of_weights, ema.averages, strict=True))
        self._former = FORMER_SCALE | former_names(numbered, self._variables)

    def fields(self) -> Fields:
        fields = {name: field_of(name, variable) for name, variable in self._variables.items()}
        return fields | model_fields(self._model)  # A step may have added variables to the model, so list them again.

    def later_fields(self) -> Fields:
        return {}  # The optimizer's method `build` has already created its variables.

    def trained_bytes(self) -> int:
        return bytes_of(self._model.trainable_variables)

    def wait(self) -> None:
        """Do nothing: reading the loss has already waited until the step is complete."""

    def unshared(self) -> set[str]:
        unshared = {id(variable) for variable in self._model.non_trainable_variables}
        return {name for name, variable in self._variables.items() if id(variable) in unshared}

    def copy(self, into: Arrays, cuts: Cuts) -> None:
        for name, place in into.items():
            array = to_host(self._variables[name])
            place[...] = elements(array, cuts.get(name), place.size).view(place.dtype)

    def load(self, arrays: Arrays) -> None:
        for name, array in arrays.items():
            # A checkpoint may contain a loss scale or moving averages that this run does not use. A checkpoint with any
            # other array that this run lacks was refused before.
            if name in self._variables:
                variable = self._variables[name]
                # Copy the array, because a variable may keep using the memory of the array that it is given.
                variable.assign(to_variable(array.copy(), variable.dtype.base_dtype))
        if self._ema is not None:
            self._ema.is_loaded = any(name.startswith("ema.") for name in arrays)

    def former(self, content: bytes) -> Arrays:
        # Format 1 did not contain the learning rate. That does no harm, because each step sets the learning rate.
        rate = {name: to_host(variable) for name, variable in self._rate.items()}
        return {**rate, **read_former(content, self._former)}


def named(prefix: str, variables: Iterable[Any]) -> dict[str, Any]:
    """Map names to variables.

    Append a number to each name that occurs twice, for example in nested layers of a user's model.
    """
    names = [variable.name.removesuffix(":0") for variable in variables]
    counts = Counter(names)
    numbered = [name if counts[name] == 1 else f"{name}.{number}" for number, name in enumerate(names)]
    return {f"{prefix}.{name}": variable for name, variable in zip(numbered, variables, strict=True)}


def former_names(numbered: Mapping[str, Any], by_name: Mapping[str, Any]) -> dict[str, str]:
    """Map the names that the variables had in checkpoint format 1 to their current names."""
    names = {id(variable): name for name, variable in by_name.items()}
    return {number: names[id(variable)] for number, variable in numbered.items()}


def read_former(content: bytes, names: Mapping[str, str]) -> Arrays:
    """Return the arrays of an .npz file of checkpoint format 1.

    Unknown arrays keep their old names, and a later check refuses them.
    """
    with np.load(io.BytesIO(content)) as arrays:
        return {names.get(name, name.replace("-", ".", 1)): arrays[name] for name in arrays.files}


def model_fields(model: Any) -> dict[str, Field]:
    return {name: field_of(name, variable) for name, variable in named("model", model.variables).items()}


def bytes_of(variables: Iterable[Any]) -> int:
    return sum(variable.shape.num_elements() * variable.dtype.base_dtype.size for variable in variables)


def field_of(name: str, variable: Any) -> Field:
    return Field.of(name, variable.dtype.base_dtype.name, variable.shape)


def to_variable(array: Any, dtype: Any) -> Any:
    """Return an array with the element type of its variable.

    NumPy has no type bfloat16, so such values are stored in an array of uint16.
    """
    is_bfloat16 = array.dtype == np.uint16 and dtype == tf.bfloat16
    return array.view(dtype.as_numpy_dtype) if is_bfloat16 else array
