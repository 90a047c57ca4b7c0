"""The optimizers of the MXNet programs. This module defines optimizers that MXNet lacks or computes differently."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import mxnet as mx

from distrain_trainer.config import Config


def make_optimizer(config: Config, **options: Any) -> Any:
    decay = config.weight_decay
    if config.optimizer == "lars":
        return Lars(wd=decay, **options)
    if config.optimizer == "lamb":
        return Lamb(wd=decay, **options)
    if config.optimizer == "adam":
        return AdamW(wd=decay, **options) if decay else mx.optimizer.Adam(**options)
    return mx.optimizer.SGD(momentum=0.9, wd=decay, **options)


def decays(weight: Any) -> bool:
    """Return whether weight decay applies to a weight.

    Weight decay does not apply to biases and normalization weights, which have one dimension.
    """
    return len(weight.shape) > 1


def exempt_from_decay(parameters: Iterable[Any]) -> None:
    """Exempt Gluon's biases and normalization weights from weight decay.

    By default, MXNet applies weight decay to all parameters.
    """
    for parameter in parameters:
        if not decays(parameter):
            parameter.wd_mult = 0.0


class AdamW(mx.optimizer.Adam):  # type: ignore[misc]
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).

    In MXNet 1.9, Adam's weight decay is not decoupled.
    """

    wd: float

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        before, wd, decay = weight.copy(), self.wd, self._get_wd(index)
        self.wd = 0.0
        super().update(index, weight, grad, state)
        self.wd = wd
        # The learning rate depends on the number of updates, which the line above has increased.
        weight -= self._get_lr(index) * decay * before


class Lars(mx.optimizer.Optimizer):  # type: ignore[misc]
    """Layer-wise Adaptive Rate Scaling with momentum: You et al. 2017, arXiv:1708.03888, algorithm 1.

    The trust ratio is trust * |w| / (|g| + weight decay * |w|), or 1 if a norm is 0. The updates of biases and
    normalization weights are not scaled. MXNet 1.9 has a LARS too, but it decides by a weight's name whether to scale
    the weight's update.
    """

    def __init__(self, momentum: float = 0.9, trust: float = 0.001, **options: Any) -> None:
        super().__init__(**options)
        self.momentum, self.trust = momentum, trust

    def create_state(self, index: int, weight: Any) -> Any:
        return zeros_like(weight)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        decay, gradient = self._get_wd(index), grad * self.rescale_grad
        if decays(weight):
            weight_norm, gradient_norm = weight.norm(), gradient.norm()
            size = gradient_norm + decay * weight_norm
            gradient = ratio_of(self.trust * weight_norm, size) * (gradient + decay * weight)
        state[:] = self.momentum * state + self._get_lr(index) * gradient
        weight -= state


class Lamb(mx.optimizer.Optimizer):  # type: ignore[misc]
    """LAMB: Adam, with each weight's update scaled to the weight's norm (You et al. 2020, arXiv:1904.00962).

    The ratio is |w| / |r + weight decay * w| with Adam's bias-corrected update r, or 1 if a norm is 0. The updates of
    biases and normalization weights are not scaled.
    """

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6, **options: Any) -> None:
        super().__init__(**options)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: int, weight: Any) -> Any:
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: int, weight: Any, grad: Any, state: Any) -> None:
        self._update_count(index)
        step, gradient, (mean, square) = self._index_update_count[index], grad * self.rescale_grad, state
        mean[:] = self.beta1 * mean + (1 - self.beta1) * gradient
        square[:] = self.beta2 * square + (1 - self.beta2) * gradient * gradient
        corrected = (square / (1 - self.beta2**step)).sqrt() + self.epsilon
        update = mean / (1 - self.beta1**step) / corrected
        if decays(weight):
            update = update + self._get_wd(index) * weight
            update = ratio_of(weight.norm(), update.norm()) * update
        weight -= self._get_lr(index) * update


def zeros_like(weight: Any) -> Any:
    return mx.nd.zeros(weight.shape, ctx=weight.context, dtype=weight.dtype)


def ratio_of(norm: Any, size: Any) -> Any:
    """Return norm / size, both of shape (1,), or 1 if one of them is 0."""
    return mx.nd.where(norm * size > 0, norm / size, mx.nd.ones_like(size))
