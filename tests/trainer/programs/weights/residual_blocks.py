"""Build ResNet50 in the framework of argv[1], and print how many of its normalization layers have which scale."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from distrain_trainer.models import MODELS


def scales_of_pytorch(shape: Any) -> Iterator[Any]:
    from distrain_trainer.pytorch.models import build

    for layer in build("resnet50", shape=shape, classes=1000).modules():
        if hasattr(layer, "running_mean"):
            yield layer.weight.detach().numpy()


def scales_of_mxnet(shape: Any) -> Iterator[Any]:
    from distrain_trainer.mxnet.models import build

    for name, parameter in build("resnet50", shape=shape, classes=1000).collect_params(".*gamma").items():
        assert parameter.grad_req == "write", name
        yield parameter.data().asnumpy()


def scales_of_tensorflow(shape: Any) -> Iterator[Any]:
    from distrain_trainer.tensorflow.models import build

    for layer in build("resnet50", shape=shape, classes=1000).layers:
        if hasattr(layer, "gamma"):
            yield layer.gamma.numpy()


scales = {"pytorch": scales_of_pytorch, "mxnet": scales_of_mxnet, "tensorflow": scales_of_tensorflow}[sys.argv[1]]
print(sorted(Counter((scale.min().item(), scale.max().item()) for scale in scales(MODELS["resnet50"].shape)).items()))
