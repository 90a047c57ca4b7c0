"""Reach into private names of TensorFlow and Keras 2.15, where they have no public way. No other module does."""

from __future__ import annotations

from typing import Any


def loss_scale_of(optimizer: Any) -> Any:
    """Return a LossScaleOptimizer's variable of the loss scale. `loss_scale` is a copy of its value."""
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
