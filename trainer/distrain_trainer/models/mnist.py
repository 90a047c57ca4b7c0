"""A small CNN for images such as MNIST's. The model pools twice, so images must have at least 4x4 pixels."""

from __future__ import annotations

from distrain_trainer.models.description import (
    Convolution,
    DataSet,
    Dense,
    Dropout,
    Flatten,
    MaxPooling,
    Model,
    Training,
)

MODEL = Model(
    name="mnist",
    title="a small CNN",
    shape=(28, 28, 1),
    classes=10,
    smallest=4,
    layers=(
        Convolution(32),
        MaxPooling(),
        Convolution(64),
        MaxPooling(),
        Flatten(),
        Dropout(0.5),
        Dense(128),
    ),
    parameters={"tensorflow": 421_642, "pytorch": 421_642, "mxnet": 421_642},
    data_set=DataSet("MNIST", 60_000),
    training=Training(batch_size=64, learning_rate=0.05, epochs=5),
)
