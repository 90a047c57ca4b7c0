"""Use private names of TensorFlow and Keras 2.15 that have no public equivalent. No other module uses any."""

from __future__ import annotations

from typing import Any


def loss_scale_of(optimizer: Any) -> Any:
    """Return the variable with a LossScaleOptimizer's loss scale. Its attribute `loss_scale` is a copy of the value."""
    return optimizer._loss_scale.current_loss_scale


def to_host(variable: Any) -> Any:
    """Return a variable's value as an array, without a copy if the variable is in host memory.

    numpy() copies, and np.asarray fails for a single number of type bfloat16.
    """
    return variable.read_value()._numpy()


def generators_of(model: Any) -> list[Any]:
    """Return the generators from which a model's layers, such as dropout, draw their random numbers."""
    own = [getattr(layer, "_random_generator", None) for layer in model.submodules]
    made = [getattr(each, "_generator", None) for each in own]
    return [generator for generator in made if generator is not None]
