"""ResNet50 of He et al. 2015 (arXiv:1512.03385), 25.56 million parameters.

At the start, the scale of the last normalization in each residual block is 0, so that the block returns its input
(Goyal et al. 2017, arXiv:1706.02677, section 5.1).

With PyTorch, the stride of a block is in its 3x3 convolution, as in the ResNet50 of common training benchmarks. In
Keras' and Gluon's models, the stride is in the first 1x1 convolution. Keras and Gluon also add biases to convolutions
before batch normalization, which gives 26,560 (Keras) and 18,880 (Gluon) more parameters than published.
"""

from __future__ import annotations

from distrain_trainer.models.description import (
    Bottlenecks,
    Convolution,
    DataSet,
    Flatten,
    GlobalAveragePooling,
    MaxPooling,
    Model,
    Training,
)

MODEL = Model(
    name="resnet50",
    title="ResNet50 (He et al. 2015)",
    shape=(224, 224, 3),
    classes=1000,
    layers=(
        Convolution(64, size=7, stride=2, is_normalized=True),
        MaxPooling(3, stride=2, padding=1),
        Bottlenecks(3, width=64, stride=1),
        Bottlenecks(4, width=128, stride=2),
        Bottlenecks(6, width=256, stride=2),
        Bottlenecks(3, width=512, stride=2),
        GlobalAveragePooling(),
        Flatten(),
    ),
    is_initialized_after_he=True,
    keras="ResNet50",
    gluon="resnet50_v1",
    parameters={"tensorflow": 25_583_592, "pytorch": 25_557_032, "mxnet": 25_575_912},
    data_set=DataSet("ImageNet", 1_281_167),
    # The recipe of Goyal et al. 2017. This learning rate is for a global batch of 256.
    training=Training(batch_size=64, learning_rate=0.1, epochs=90, warmup=500, precision="fp16"),
    p100_images_per_second=219.0,
)
