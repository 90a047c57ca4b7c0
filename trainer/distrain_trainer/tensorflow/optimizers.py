"""Define the optimizers of TensorFlow's Horovod program, and the weight decay of all TensorFlow programs.

Keras 2.15 lacks LARS and LAMB, so this module defines them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from distrain_trainer.config import Config


def make_optimizer(config: Config, variables: Iterable[Any]) -> Any:
    """Return the optimizer for the given variables.

    The optimizer does not apply SGD's weight decay; `with_decay` applies it.
    """
    optimizers, decay = tf.keras.optimizers, config.weight_decay
    if config.optimizer == "lars":
        return Lars(weight_decay=decay)
    if config.optimizer == "lamb":
        return Lamb(weight_decay=decay)
    if config.optimizer == "sgd":
        return optimizers.SGD(momentum=0.9)
    if not decay:
        return optimizers.Adam()
    # Keras' decay is decoupled (Loshchilov and Hutter 2019, arXiv:1711.05101).
    adam = optimizers.Adam(weight_decay=decay)
    adam.exclude_from_weight_decay(var_list=[each for each in variables if not decays(each)])
    return adam


def decays(variable: Any) -> bool:
    """Return whether a variable has weight decay.

    Weight decay does not apply to biases and normalization weights, which have one dimension.
    """
    return len(variable.shape) > 1


def with_decay(config: Config, gradients: Iterable[Any], variables: Iterable[Any]) -> list[Any]:
    """For SGD, add the weight decay (decay * weight) to the gradients.

    For all other optimizers, return the gradients unchanged. In Keras, SGD's weight decay is decoupled. But SGD's
    weight decay is not decoupled in PyTorch, in MXNet and in Goyal et al. 2017 (arXiv:1706.02677).
    """
    decay = config.weight_decay if config.optimizer == "sgd" else 0.0
    return [
        gradient + decay * variable if decay and gradient is not None and decays(variable) else gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


class Lars(tf.keras.optimizers.Optimizer):  # type: ignore[misc]
    """Layer-wise Adaptive Rate Scaling with momentum: You et al. 2017, arXiv:1708.03888, algorithm 1.

    The trust ratio is trust * |w| / (|g| + decay * |w|), or 1 if a norm is 0. Biases and normalization weights have no
    weight decay, and their updates are not scaled.
    """

    def __init__(self, weight_decay: float = 0.0, momentum: float = 0.9, trust: float = 0.001) -> None:
        super().__init__(name="lars")
        self._learning_rate = self._build_learning_rate(0.0)
        self.decay, self.momentum, self.trust = weight_decay, momentum, trust
        self.momenta: list[Any] = []

    def build(self, var_list: Any) -> None:
        super().build(var_list)
        if self.momenta:  # Keras calls `build` again in each step, so do nothing if the variables exist.
            return
        self.momenta = [self.add_variable_from_reference(each, "momentum") for each in var_list]

    def update_step(self, gradient: Any, variable: Any) -> None:
        momentum = self.momenta[self._index_dict[self._var_key(variable)]]
        gradient = tf.convert_to_tensor(gradient)
        if decays(variable):
            weight_norm, gradient_norm = tf.norm(variable), tf.norm(gradient)
            ratio = ratio_of(self.trust * weight_norm, gradient_norm + self.decay * weight_norm)
            gradient = ratio * (gradient + self.decay * variable)
        momentum.assign(self.momentum * momentum + self.learning_rate * gradient)
        variable.assign_sub(momentum)

    def get_config(self) -> dict[str, Any]:
        return {"weight_decay": self.decay, "momentum": self.momentum, "trust": self.trust}


class Lamb(tf.keras.optimizers.Optimizer):  # type: ignore[misc]
    """LAMB: Adam, with each weight's update scaled to the weight's norm (You et al. 2020, arXiv:1904.00962).

    The ratio is |w| / |r + decay * w| with Adam's bias-corrected update r, or 1 if a norm is 0. Biases and
    normalization weights have no weight decay, and their updates are not scaled.
    """

    def __init__(
        self, weight_decay: float = 0.0, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-6
    ) -> None:
        super().__init__(name="lamb")
        self._learning_rate = self._build_learning_rate(0.0)
        self.decay, self.beta_1, self.beta_2, self.epsilon = weight_decay, beta_1, beta_2, epsilon
        self.means: list[Any] = []
        self.squares: list[Any] = []

    def build(self, var_list: Any) -> None:
        super().build(var_list)
        if self.means:  # Keras calls `build` again in each step, so do nothing if the variables exist.
            return
        self.means = [self.add_variable_from_reference(each, "m") for each in var_list]
        self.squares = [self.add_variable_from_reference(each, "v") for each in var_list]

    def update_step(self, gradient: Any, variable: Any) -> None:
        place = self._index_dict[self._var_key(variable)]
        mean, square, gradient = self.means[place], self.squares[place], tf.convert_to_tensor(gradient)
        step = tf.cast(self.iterations + 1, variable.dtype)
        mean.assign(self.beta_1 * mean + (1 - self.beta_1) * gradient)
        square.assign(self.beta_2 * square + (1 - self.beta_2) * gradient * gradient)
        corrected = tf.sqrt(square / (1 - tf.pow(self.beta_2, step))) + self.epsilon
        update = mean / (1 - tf.pow(self.beta_1, step)) / corrected
        if decays(variable):
            update = update + self.decay * variable
            update = ratio_of(tf.norm(variable), tf.norm(update)) * update
        variable.assign_sub(self.learning_rate * update)

    def get_config(self) -> dict[str, Any]:
        names = ("beta_1", "beta_2", "epsilon")
        return {"weight_decay": self.decay, **{name: getattr(self, name) for name in names}}


def ratio_of(norm: Any, size: Any) -> Any:
    """Return norm / size, or 1 if one of them is 0."""
    return tf.where(norm * size > 0, norm / size, 1.0)
