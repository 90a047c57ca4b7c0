"""The models, for TensorFlow: they take images in 0..1 and return a logit per class."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def build(name: str, *, shape: tuple[int, ...], classes: int) -> Any:
    """Return a model of the given name, for images of a shape (height, width, channels)."""
    return {"mnist": _mnist, "resnet50": _resnet50, "vgg16": _vgg16}[name](shape, classes)


def _mnist(shape: tuple[int, ...], classes: int) -> Any:
    """A small CNN, for images of any size from 4x4."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input(shape),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(128, activation="relu"),
            layers.Dense(classes),
        ]
    )


def _resnet50(shape: tuple[int, ...], classes: int) -> Any:
    """ResNet50 as published (He et al. 2015), 25.56 million parameters at 224x224x3 and 1000 classes.

    Keras' convolutions have a bias beside their batch normalization, 26 560 parameters more.
    """
    return tf.keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes, classifier_activation=None)


def _vgg16(shape: tuple[int, ...], classes: int) -> Any:
    """VGG16 as published (Simonyan and Zisserman 2014): 138.36 million parameters at 224x224x3 and 1000 classes."""
    return tf.keras.applications.VGG16(weights=None, input_shape=shape, classes=classes, classifier_activation=None)
