"""VGG16 of Simonyan and Zisserman 2014 (arXiv:1409.1556), 138.36 million parameters.

The VGG16 of Keras has no dropout.
"""

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
    name="vgg16",
    title="VGG16 (Simonyan and Zisserman 2014)",
    shape=(224, 224, 3),
    classes=1000,
    layers=(
        *(Convolution(64), Convolution(64), MaxPooling()),
        *(Convolution(128), Convolution(128), MaxPooling()),
        *(Convolution(256), Convolution(256), Convolution(256), MaxPooling()),
        *(Convolution(512), Convolution(512), Convolution(512), MaxPooling()),
        *(Convolution(512), Convolution(512), Convolution(512), MaxPooling()),
        Flatten(),
        *(Dense(4096), Dropout(0.5)),
        *(Dense(4096), Dropout(0.5)),
    ),
    # VGG16 has no batch normalization, and does not learn if it starts from PyTorch's default weights.
    is_initialized_after_he=True,
    keras="VGG16",
    gluon="vgg16",
    parameters={"tensorflow": 138_357_544, "pytorch": 138_357_544, "mxnet": 138_357_544},
    data_set=DataSet("ImageNet", 1_281_167),
    # The recipe of Simonyan and Zisserman 2014. This learning rate is for a global batch of 256, the batch size in that
    # paper.
    training=Training(batch_size=64, learning_rate=0.01, epochs=74, precision="fp16"),
    p100_images_per_second=154.0,
)
