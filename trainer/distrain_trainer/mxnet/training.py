"""Functions that both MXNet programs use: precision, loss and evaluation."""

from __future__ import annotations

import contextlib
import json
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

# The name of the saved weights' file.
MODEL = "model.params"
# These operators draw no random numbers. If a model contains any other operator, the trainer sets the random seed
# before each step.
WITHOUT_RANDOMNESS = {
    *("null", "Activation", "BatchNorm", "Concat", "Convolution", "Flatten", "FullyConnected", "LayerNorm", "Pooling"),
    *("Reshape", "_copy", "_mul_scalar", "_plus_scalar", "elemwise_add", "elemwise_mul", "transpose"),
}


def require_asked_gpus() -> None:
    is_for_gpus = mx.runtime.Features().is_enabled("CUDA")
    require_gpus("MXNet", visible=mx.context.num_gpus(), is_for_gpus=is_for_gpus)


def choose_precision(config: Config, device: Any, log: Log) -> bool:
    """Switch to fp16 if it is requested and there is a GPU. Return whether fp16 is used.

    Call this before the model is built, because it patches MXNet's operators.
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


def seeder(model: Any) -> Callable[[int], None]:
    """Return the function that seeds operators such as dropout for the next step.

    Seeding takes a millisecond, because MXNet seeds 1,024 generators. If no operator of the model draws random numbers,
    the function does nothing.
    """
    operators = {node["op"] for node in nodes_in_training(model)}
    return (lambda seed: None) if operators <= WITHOUT_RANDOMNESS else mx.random.seed


def nodes_in_training(model: Any) -> list[dict[str, Any]]:
    """Return the nodes of the model's graph, each with its operator (`op`).

    The result is the graph for training. The graph for a test may differ, because a block can ask
    mx.autograd.is_training().
    """
    with mx.autograd.record():
        return json.loads(model(mx.sym.var("data")).tojson())["nodes"]  # type: ignore[no-any-return]


class Loss(mx.gluon.HybridBlock):  # type: ignore[misc]  # mxnet is not installed where types are checked
    """The loss of the batch of one rank, as an array with one number.

    The model and its loss form one graph, which is called once per step. With label smoothing e the loss is (1 - e)
    times the label's loss plus e times the mean of the losses of all classes (Szegedy et al. 2016, arXiv:1512.00567,
    section 7).
    """

    def __init__(self, model: Any, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self._label_smoothing = label_smoothing
        self._cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        # All batches have the same shape, so MXNet can queue the whole graph at once. With control flow in the model,
        # such as foreach, it would then compute a wrong loss and wrong gradients.
        has_control_flow = any("subgraphs" in node for node in nodes_in_training(model))
        self.hybridize(static_alloc=True, static_shape=not has_control_flow)

    def hybrid_forward(self, operators: Any, images: Any, labels: Any, weights: Any) -> Any:
        logits = operators.cast(self.model(images), dtype="float32")
        losses, smoothing = self._cross_entropy(logits, labels), self._label_smoothing
        if smoothing:
            of_classes = -operators.mean(operators.log_softmax(logits, axis=1), axis=1)
            losses = (1 - smoothing) * losses + smoothing * of_classes
        return operators.sum(weights * losses)


class Statistics:
    """Copies of the untrained parameters, for example batch normalization statistics, as they were before a step."""

    def __init__(self, model: Any) -> None:
        self.parameters = [each for each in model.collect_params().values() if each.grad_req == "null"]
        self._before: list[list[Any]] = []

    def keep(self) -> None:
        self._before = [[array.copy() for array in each.list_data()] for each in self.parameters]

    def restore(self) -> None:
        """Undo the changes that the step has made to these parameters.

        Call this only after reading the gradients, which waits until the step is computed. Otherwise, with static_shape
        in `hybridize`, the running step may change the parameters after this function has restored them.
        """
        for each, before in zip(self.parameters, self._before, strict=True):
            for array, old in zip(each.list_data(), before, strict=True):
                array[:] = old


def are_finite(arrays: Sequence[Any]) -> bool:
    """Return whether all numbers in `arrays` are finite. All arrays must be on the same device."""
    return bool(mx.nd.multi_all_finite(*arrays, num_arrays=len(arrays)).asscalar())


def count_right(model: Any, batches: Iterable[Batch], device: Any) -> tuple[int, int]:
    """Count the samples whose label has the largest logit, and those whose label has one of the five largest logits."""
    counts = [
        evaluation.count_right(model(to_model(batch.images, device)).asnumpy(), batch.labels, batch.weights)
        for batch in batches
    ]
    return sum(top1 for top1, _ in counts), sum(top5 for _, top5 in counts)


def saver(model: Any, shape: Shape, device: Any, ema: Ema | None = None) -> Callable[[Path], None]:
    """Return the function that writes the tested weights to a file, which Gluon's load_parameters can read.

    In the same folder, the function also writes files for SymbolBlock.imports: the graph to NAME-symbol.json, and its
    weights to NAME-0000.params. SymbolBlock.imports does not need the Python code of the model.
    """

    def save(path: Path) -> None:
        height, width, channels = shape
        with ema.applied() if ema is not None else contextlib.nullcontext():
            model.save_parameters(str(path))
            # If the run has made no step, there is no graph yet.
            model(mx.nd.zeros((1, channels, height, width), ctx=device))
            model.export(str(path.with_suffix("")))

    return save
