"""Build models for TensorFlow. A model maps images with values in 0..1 to one logit per class."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from distrain_trainer.models import user


def build(name: str, *, shape: tuple[int, ...], classes: int) -> Any:
    """Build the model `name` for images of `shape` (height, width, channels).

    Raises ArgumentError when a user's function returns no model, or a model that does not fit the data.
    """
    if user.is_users(name):
        return _users(name, shape, classes)
    return {"mnist": _mnist, "resnet50": _resnet50, "vgg16": _vgg16}[name](shape, classes)


def _users(name: str, shape: tuple[int, ...], classes: int) -> Any:
    model = user.build(name, shape=shape, classes=classes, kind=tf.keras.Model, kind_name="Keras model")
    # Keras may create a model's weights only at its first call, which is the one below.
    blank = tf.zeros([1, *shape])
    user.require_logits(name, shape=shape, classes=classes, forward=lambda: model(blank, training=False).shape)
    return model


def _mnist(shape: tuple[int, ...], classes: int) -> Any:
    """Build a small CNN for images of 4x4 pixels or more."""
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
    """Build ResNet50 (He et al. 2015), 25.56 million parameters at 224x224x3 and 1000 classes.

    Keras adds biases to the convolutions before batch normalization, 26 560 parameters more than published.
    """
    return tf.keras.applications.ResNet50(weights=None, input_shape=shape, classes=classes, classifier_activation=None)


def _vgg16(shape: tuple[int, ...], classes: int) -> Any:
    """Build VGG16 (Simonyan and Zisserman 2014), 138.36 million parameters at 224x224x3 and 1000 classes."""
    return tf.keras.applications.VGG16(weights=None, input_shape=shape, classes=classes, classifier_activation=None)
