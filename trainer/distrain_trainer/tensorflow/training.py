"""Functions that both TensorFlow programs use: device, precision, seeds, the loss of a batch, and evaluation."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, evaluation_batches
from distrain_trainer.errors import ArgumentError
from distrain_trainer.gpus import require_gpu_of_rank, require_gpus
from distrain_trainer.loop import evaluation
from distrain_trainer.loop.randomness import seed_model
from distrain_trainer.models.description import Shape
from distrain_trainer.tensorflow.private import generators_of

# The name of the saved model's file, and of the folder in TensorFlow's own format (SavedModel), which TensorFlow
# Serving reads.
MODEL, SAVED_MODEL = "model.keras", "saved_model"
# A part of TensorFlow's error for an operation that XLA cannot compile. The group is the operation's name.
REFUSED_BY_XLA = re.compile(r"No registered '(\w+)' OpKernel for XLA")
MIXED_PRECISION = {"fp16": "mixed_float16", "bf16": "mixed_bfloat16"}


def require_asked_gpus() -> None:
    visible = len(tf.config.list_physical_devices("GPU"))
    require_gpus("TensorFlow", visible=visible, is_for_gpus=tf.test.is_built_with_gpu_support())


def choose_device(*, local_rank: int, local_size: int) -> None:
    """Use one of this machine's GPUs, and allocate its memory only on demand.

    Raises DeviceError if a machine has more ranks than GPUs.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return
    require_gpu_of_rank(local_rank, local_ranks=local_size, visible=len(gpus))
    gpu = gpus[local_rank]  # Distributed: each rank on a machine uses a different GPU.
    tf.config.set_visible_devices(gpu, "GPU")
    tf.config.experimental.set_memory_growth(gpu, True)


def has_gpu() -> bool:
    return bool(tf.config.get_visible_devices("GPU"))


def choose_precision(config: Config) -> None:
    """If this process sees a GPU, train in the requested half precision."""
    if config.precision != "fp32" and has_gpu():
        tf.keras.mixed_precision.set_global_policy(MIXED_PRECISION[config.precision])


def make_deterministic() -> None:
    """Make computations bitwise reproducible. Call this before any other call to TensorFlow."""
    tf.config.experimental.enable_op_determinism()
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)


def seed(config: Config, *, rank: int) -> None:
    """Seed the initialization of the weights, and make layers use generators that `seeder` can seed for each step."""
    of_rank = seed_model(config, rank=rank)  # Distributed: each rank gets its own seed and its own dropout.
    tf.keras.utils.set_random_seed(of_rank)
    tf.keras.backend.experimental.enable_tf_random_generator()
    tf.random.set_global_generator(tf.random.Generator.from_seed(of_rank))


def seeder(model: Any) -> Callable[[Any], None]:
    """Return a function that seeds layers such as dropout for the next step.

    This function may be called inside a graph.
    """
    generators = [*generators_of(model), tf.random.get_global_generator()]

    def seed_layers(seed: Any) -> None:
        for number, generator in enumerate(generators):
            # Include the layer's index in the seed: otherwise two layers with the same settings would draw the same
            # dropout.
            generator.reset(tf.stack([0, number, tf.cast(seed, tf.int64)]))

    return seed_layers


def forward_of(model: Any, *, is_compiled: bool) -> Callable[[Any], Any]:
    """Return the forward pass of the model as it is used in training.

    If XLA compiles the forward pass, it also compiles its gradient.
    """

    def forward(images: Any) -> Any:
        # Otherwise the compiled backward pass would also compute the gradient of the images, which nothing needs.
        return model(tf.stop_gradient(images), training=True)

    return tf.function(forward, jit_compile=True) if is_compiled else forward


def tell_refusal_by_xla(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `step`. It raises ArgumentError if XLA cannot compile an operation of the model."""

    @functools.wraps(step)
    def told(*inputs: Any) -> Any:
        try:
            return step(*inputs)
        except tf.errors.InvalidArgumentError as error:
            if refused := REFUSED_BY_XLA.search(str(error)):
                raise ArgumentError(
                    f"trainer.extraArgs: --compile: XLA cannot compile {refused[1]}, an operation of the model; "
                    "remove --compile"
                ) from None
            raise

    return told


def loss_of(
    forward: Callable[[Any], Any], images: Any, labels: Any, weights: Any, *, label_smoothing: float = 0.0
) -> Any:
    """Return the sum of the losses of a batch, each multiplied by its sample's weight.

    With label smoothing e a sample's loss is (1 - e) times its label's loss plus e times the mean of the losses of all
    classes (Szegedy et al. 2016, arXiv:1512.00567, section 7).
    """
    logits = tf.cast(forward(images), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    if label_smoothing:
        of_classes = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=1)
        losses = (1 - label_smoothing) * losses + label_smoothing * of_classes
    return tf.reduce_sum(weights * losses)


def are_finite(gradients: Iterable[Any]) -> Any:
    """Return a boolean tensor that is true if all gradients are finite."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients if gradient is not None])


@functools.cache
def predictor(model: Any) -> Callable[[Any], Any]:
    """Return a function, compiled to a graph, that computes the model's logits for a test.

    The function is cached for each model.
    """
    return tf.function(lambda images: logits_of(model, images))  # type: ignore[no-any-return]


def logits_of(model: Any, images: Any) -> Any:
    # With mixed precision, the model's output is in half precision.
    return tf.cast(model(images, training=False), tf.float32)


def count_right(config: Config, dataset: Dataset, model: Any, *, rank: int, ranks: int) -> tuple[int, int]:
    """Count this rank's test samples whose label has the largest logit, or one of the five largest logits."""
    predict = predictor(model)
    counts = [
        evaluation.count_right(predict(batch.images).numpy(), batch.labels, batch.weights)
        # Distributed: each rank tests on its own part of the samples.
        for batch in evaluation_batches(config, dataset, rank=rank, ranks=ranks)
    ]
    return sum(top1 for top1, _ in counts), sum(top5 for _, top5 in counts)


def write_model(model: Any, shape: Shape, path: Path) -> None:
    """Write the model for `tf.keras.models.load_model`, and also write it to the same folder as a SavedModel.

    Loading a SavedModel does not require the Python code of the model.

    The function `serve` of the SavedModel takes images as float32[N, height, width, channels], and returns logits as
    float32.
    """
    model.save(path)
    module = tf.Module()
    module.variables_of_model = model.variables
    images = tf.TensorSpec([None, *shape], tf.float32, name="images")
    module.serve = tf.function(lambda images: {"logits": logits_of(model, images)}, input_signature=[images])
    folder = path.with_name(path.name.replace(MODEL, SAVED_MODEL))
    tf.saved_model.save(module, str(folder), signatures=module.serve)
