"""Use private names of TensorFlow and Keras 2.15 that have no public equivalent.

All other modules use only public names.
"""

from __future__ import annotations

from typing import Any


def loss_scale_of(optimizer: Any) -> Any:
    """Return the variable in which a LossScaleOptimizer stores the loss scale.

    The attribute `loss_scale` of the optimizer returns only a copy of the value.
    """
    return optimizer._loss_scale.current_loss_scale


def to_host(variable: Any) -> Any:
    """Return the value of a variable as an array. If the variable is in host memory, do not copy it.

    numpy() would copy the value, and np.asarray fails for a single number of type bfloat16.
    """
    return variable.read_value()._numpy()


def generators_of(model: Any) -> list[Any]:
    """Return the generators from which layers of the model, such as dropout, draw random numbers."""
    own = [getattr(layer, "_random_generator", None) for layer in model.submodules]
    made = [getattr(each, "_generator", None) for each in own]
    return [generator for generator in made if generator is not None]
