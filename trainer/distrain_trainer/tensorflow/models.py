"""Build Keras models for TensorFlow.

A model maps images (values from 0 to 1) to one logit per class.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from distrain_trainer.models import MODELS, user
from distrain_trainer.models.description import Convolution, Dense, Dropout, Flatten, Layer, MaxPooling, Model, Shape


def build(name: str, *, shape: Shape, classes: int) -> Any:
    """Build the model `name` for images of `shape` (height, width, channels).

    Raises ArgumentError when a user's function returns no model, or a model that does not fit the data.
    """
    if user.is_users(name):
        return _users(name, shape, classes)
    return _included(MODELS[name], shape, classes)


def _users(name: str, shape: Shape, classes: int) -> Any:
    model = user.build(name, shape=shape, classes=classes, kind=tf.keras.Model, kind_name="Keras model")
    # Keras may create the weights only when the model is first called, as below.
    blank = tf.zeros([1, *shape])
    user.require_logits(name, shape=shape, classes=classes, forward=lambda: model(blank, training=False).shape)
    return model


def _included(model: Model, shape: Shape, classes: int) -> Any:
    if model.keras:
        application = getattr(tf.keras.applications, model.keras)
        built = application(weights=None, input_shape=shape, classes=classes, classifier_activation=None)
        return _with_blocks_off(built)
    layers = [_layer(layer) for layer in model.layers]
    return tf.keras.Sequential([tf.keras.layers.Input(shape), *layers, tf.keras.layers.Dense(classes)])


def _with_blocks_off(model: Any) -> Any:
    """Set the scale of the last normalization in each residual block to 0. Keras ends their names in _3_bn."""
    for layer in model.layers:
        if layer.name.endswith("_3_bn"):
            layer.gamma.assign(tf.zeros_like(layer.gamma))
    return model


def _layer(layer: Layer) -> Any:
    layers = tf.keras.layers
    match layer:
        case Convolution(filters, size, stride=1, is_normalized=False):
            return layers.Conv2D(filters, size, padding="same", activation="relu")
        case MaxPooling(size, stride, padding=0):
            return layers.MaxPooling2D(size, stride)
        case Flatten():
            return layers.Flatten()
        case Dropout(rate):
            return layers.Dropout(rate)
        case Dense(units):
            return layers.Dense(units, activation="relu")
    raise TypeError(f"there is no Keras layer for {layer} here; set the model's `keras`, or add one")
