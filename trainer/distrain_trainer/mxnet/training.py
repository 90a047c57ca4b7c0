"""Functions for both MXNet programs: precision, loss and evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import mxnet as mx
from mxnet.contrib import amp

from distrain_trainer.config import Config
from distrain_trainer.data import Batch
from distrain_trainer.gpus import require_gpus, tell_precision
from distrain_trainer.log import Log
from distrain_trainer.loop import evaluation
from distrain_trainer.models.description import Shape
from distrain_trainer.mxnet.ema import Ema
from distrain_trainer.mxnet.models import to_model

# The name of the file with the weights.
MODEL = "model.params"


def require_asked_gpus() -> None:
    is_for_gpus = mx.runtime.Features().is_enabled("CUDA")
    require_gpus("MXNet", visible=mx.context.num_gpus(), is_for_gpus=is_for_gpus)


def choose_precision(config: Config, device: Any, log: Log) -> bool:
    """Switch to fp16 if it is requested and there is a GPU. Return whether fp16 is used.

    Call this before the model is built, as it patches MXNet's operators.
    """
    has_gpu = device.device_type == "gpu"
    tell_precision(config, log, has_gpu=has_gpu)
    if config.precision == "fp32" or not has_gpu:
        return False
    if config.precision == "bf16":
        log.print("trainer.precision: MXNet has no bf16 on GPUs; training in fp32. Set fp16")
        return False
    amp.init()
    return True


def make_loss(model: Any, label_smoothing: float = 0.0) -> Callable[[Batch, Any], Any]:
    """Return the function that computes one rank's loss of a batch on a device. The loss is an array of one number.

    With label smoothing e the loss is (1 - e) times the label's loss plus e times the mean of the losses of all classes
    (Szegedy et al. 2016, arXiv:1512.00567, section 7).
    """
    model.hybridize(static_alloc=True)
    cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def loss(batch: Batch, device: Any) -> Any:
        labels, weights = (mx.nd.array(each, ctx=device) for each in (batch.labels, batch.weights))
        logits = model(to_model(batch.images, device)).astype("float32")
        losses = cross_entropy(logits, labels)
        if label_smoothing:
            of_classes = -logits.log_softmax(axis=1).mean(axis=1)
            losses = (1 - label_smoothing) * losses + label_smoothing * of_classes
        return (weights * losses).sum()

    return loss


class Statistics:
    """A copy of the non-trainable parameters from before a step, for example of batch normalization statistics."""

    def __init__(self, model: Any) -> None:
        self.parameters = [each for each in model.collect_params().values() if each.grad_req == "null"]
        self._before: list[list[Any]] = []

    def keep(self) -> None:
        self._before = [[array.copy() for array in each.list_data()] for each in self.parameters]

    def restore(self) -> None:
        """Undo the step's changes of these parameters."""
        for each, before in zip(self.parameters, self._before, strict=True):
            for array, old in zip(each.list_data(), before, strict=True):
                array[:] = old


def are_finite(arrays: Sequence[Any]) -> bool:
    """Return whether all numbers in `arrays` are finite. The arrays must be on one device."""
    return bool(mx.nd.multi_all_finite(*arrays, num_arrays=len(arrays)).asscalar())


def count_right(model: Any, batches: Iterable[Batch], device: Any) -> tuple[int, int]:
    """Count the samples whose label has the largest logit, and those whose label has one of the five largest logits."""
    counts = [
        evaluation.count_right(model(to_model(batch.images, device)).asnumpy(), batch.labels, batch.weights)
        for batch in batches
    ]
    return sum(top1 for top1, _ in counts), sum(top5 for _, top5 in counts)


def saver(model: Any, shape: Shape, device: Any, ema: Ema | None = None) -> Callable[[Path], None]:
    """Return the function that writes the tested weights to a file for Gluon's load_parameters.

    In the same folder the function writes files for SymbolBlock.imports: the graph to NAME-symbol.json, its weights to
    NAME-0000.params. SymbolBlock.imports needs no Python code of the model.
    """

    def save(path: Path) -> None:
        height, width, channels = shape
        with ema.applied() if ema is not None else contextlib.nullcontext():
            model.save_parameters(str(path))
            model(mx.nd.zeros((1, channels, height, width), ctx=device))  # A run without a step has no graph yet.
            model.export(str(path.with_suffix("")))

    return save
