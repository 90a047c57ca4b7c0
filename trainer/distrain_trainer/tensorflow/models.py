"""The models, for TensorFlow: they take images in 0..1 and return a logit per class."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from distrain_trainer.models import user


def build(name: str, *, shape: tuple[int, ...], classes: int) -> Any:
    """Return a model of the given name, for images of a shape (height, width, channels).

    Raises ArgumentError when a user's own is none, or does not fit the data.
    """
    if user.is_users(name):
        return _users(name, shape, classes)
    return {"mnist": _mnist, "resnet50": _resnet50, "vgg16": _vgg16}[name](shape, classes)


def _users(name: str, shape: tuple[int, ...], classes: int) -> Any:
    model = user.build(name, shape=shape, classes=classes, kind=tf.keras.Model, kind_name="Keras model")
    # One image through it also makes the weights of a model that Keras builds at its first call.
    blank = tf.zeros([1, *shape])
    user.require_logits(name, shape=shape, classes=classes, forward=lambda: model(blank, training=False).shape)
    return model


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
