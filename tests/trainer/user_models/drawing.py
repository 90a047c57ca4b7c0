"""A model that draws random numbers from the generators of Python, NumPy and its framework.

Tests put this folder on PYTHONPATH.
"""

from __future__ import annotations

import importlib.util
import random
from math import prod
from typing import Any

import numpy as np


def net(shape: tuple[int, ...], classes: int) -> Any:
    makers = {"tensorflow": keras_net, "torch": torch_net, "mxnet": gluon_net}
    [make] = [make for name, make in makers.items() if importlib.util.find_spec(name)]
    return make(shape, classes)


def drawn() -> np.float32:
    return np.float32(random.random() + np.random.random())


def keras_net(shape: tuple[int, ...], classes: int) -> Any:
    import tensorflow as tf

    class Drawing(tf.keras.layers.Layer):
        def call(self, images: Any, training: bool = False) -> Any:
            # TensorFlow runs the Python code of call() only once, when it compiles the layer. But it runs `drawn` in
            # every step.
            return images * tf.ensure_shape(tf.numpy_function(drawn, [], tf.float32), ()) if training else images

    layers = tf.keras.layers
    after = (layers.Flatten(), layers.Dropout(0.5), layers.Dense(classes))
    return tf.keras.Sequential([layers.Input(shape), Drawing(), *after])


def torch_net(shape: tuple[int, ...], classes: int) -> Any:
    from torch import nn

    class Drawing(nn.Module):
        def forward(self, images: Any) -> Any:
            return images * float(drawn()) if self.training else images

    return nn.Sequential(Drawing(), nn.Flatten(), nn.Dropout(0.5), nn.Linear(prod(shape), classes))


def gluon_net(shape: tuple[int, ...], classes: int) -> Any:
    import mxnet as mx
    from mxnet.gluon import nn

    class Draw(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] * float(drawn()))

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            self.assign(in_grad[0], req[0], 0 * out_grad[0])

    @mx.operator.register("draw")
    class DrawProperties(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Draw:
            return Draw()

    class Drawing(nn.HybridBlock):
        def hybrid_forward(self, F: Any, images: Any) -> Any:  # noqa: N803
            return F.Custom(images, op_type="draw")

    model = nn.HybridSequential()
    model.add(Drawing(), nn.Flatten(), nn.Dropout(0.5), nn.Dense(classes, in_units=prod(shape)))
    return model
