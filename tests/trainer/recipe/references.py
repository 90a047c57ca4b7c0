"""Compute with NumPy, in double precision, the formulas of the optimizers and of the moving average."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

Array = Any
MOMENTUM, TRUST = 0.9, 0.001
MEAN, SQUARE = 0.9, 0.999


class Epsilon(NamedTuple):
    """Adam's constant epsilon.

    With `is_hat`, it is the constant in the formula at the end of section 2 of Kingma and Ba 2014. This constant is
    added before the bias of the second moment is corrected.
    """

    size: float
    is_hat: bool = False


def weights_after(
    optimizer: str, weight: Array, gradients: list[Array], *, rate: float, decay: float, epsilon: Epsilon
) -> Iterator[Array]:
    """Yield the value of a weight after each step.

    A weight with only one dimension, such as a bias, does not decay, and its update is not scaled.
    """
    steps = {"sgd": sgd, "adam": adam, "lars": lars, "lamb": lamb}
    weight = np.asarray(weight, dtype=np.float64)
    decay = decay if weight.ndim > 1 else 0.0
    yield from steps[optimizer](weight, [np.asarray(each, np.float64) for each in gradients], rate, decay, epsilon)


def sgd(weight: Array, gradients: list[Array], rate: float, decay: float, epsilon: Epsilon) -> Iterator[Array]:
    momentum = np.zeros_like(weight)
    for gradient in gradients:
        momentum = MOMENTUM * momentum + gradient + decay * weight
        weight = weight - rate * momentum
        yield weight


def adam(weight: Array, gradients: list[Array], rate: float, decay: float, epsilon: Epsilon) -> Iterator[Array]:
    for update in adams(gradients, epsilon):
        weight = weight - rate * decay * weight - rate * update
        yield weight


def lars(weight: Array, gradients: list[Array], rate: float, decay: float, epsilon: Epsilon) -> Iterator[Array]:
    momentum = np.zeros_like(weight)
    for gradient in gradients:
        size = np.linalg.norm(gradient) + decay * np.linalg.norm(weight)
        trust = TRUST * np.linalg.norm(weight) / size if weight.ndim > 1 else 1.0
        momentum = MOMENTUM * momentum + rate * trust * (gradient + decay * weight)
        weight = weight - momentum
        yield weight


def lamb(weight: Array, gradients: list[Array], rate: float, decay: float, epsilon: Epsilon) -> Iterator[Array]:
    for update in adams(gradients, epsilon):
        update = update + decay * weight
        trust = np.linalg.norm(weight) / np.linalg.norm(update) if weight.ndim > 1 else 1.0
        weight = weight - rate * trust * update
        yield weight


def adams(gradients: list[Array], epsilon: Epsilon) -> Iterator[Array]:
    """For each step, yield Adam's update without the learning rate (Kingma and Ba 2014, arXiv:1412.6980)."""
    mean, square = np.zeros_like(gradients[0]), np.zeros_like(gradients[0])
    for step, gradient in enumerate(gradients, 1):
        mean = MEAN * mean + (1 - MEAN) * gradient
        square = SQUARE * square + (1 - SQUARE) * gradient**2
        correction = np.sqrt(1 - SQUARE**step)
        small = epsilon.size / correction if epsilon.is_hat else epsilon.size
        yield mean / (1 - MEAN**step) / (np.sqrt(square) / correction + small)


def averages_after(start: Array, weights: list[Array], limit: float) -> Iterator[Array]:
    """Yield the moving average after each step (tf.train.ExponentialMovingAverage with num_updates)."""
    average = np.asarray(start, dtype=np.float64)
    for step, weight in enumerate(weights, start=1):
        decay = min(limit, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * weight
        yield average


def smoothed_loss(logits: Array, labels: Array, weights: Array, smoothing: float) -> float:
    """Return the weighted sum of the cross entropies with smoothed labels (Szegedy et al. 2016, arXiv:1512.00567).

    A smoothed label assigns smoothing / classes to each class, plus 1 - smoothing to the sample's class (section 7).
    """
    classes = logits.shape[1]
    wanted = np.full(logits.shape, smoothing / classes)
    wanted[np.arange(len(labels)), labels] += 1 - smoothing
    losses = np.log(np.exp(logits).sum(axis=1, keepdims=True)) - logits
    return float((weights * (wanted * losses).sum(axis=1)).sum())
