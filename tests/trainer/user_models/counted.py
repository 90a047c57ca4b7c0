"""A TensorFlow model: first a layer whose variables are not floating-point numbers, then the built-in model."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from distrain_trainer.tensorflow import models


class Counted(tf.keras.layers.Layer):
    """A layer that counts the training steps, and sets a flag in the first step."""

    def build(self, shape: Any) -> None:
        self.steps = self.add_weight(name="steps", shape=(), dtype=tf.int64, initializer="zeros", trainable=False)
        self.seen = self.add_weight(name="seen", shape=(), dtype=tf.bool, initializer="zeros", trainable=False)

    def call(self, images: Any, training: bool | None = None) -> Any:
        if training:
            self.steps.assign_add(1)
            self.seen.assign(True)
        return images


def net(shape: Any, classes: int) -> Any:
    model = models.build("mnist", shape=shape, classes=classes)
    return tf.keras.Sequential([tf.keras.layers.Input(shape), Counted(), *model.layers])
