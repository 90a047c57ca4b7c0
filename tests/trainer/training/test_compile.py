"""Test --compile with TensorFlow.

A run does not compile the model if there is no GPU. So this test compiles it directly, for the CPU.
"""

from __future__ import annotations

from pathlib import Path

from tests.trainer.conftest import ProgramInImage, run_in_image

# This script prints two results: whether the compiled forward pass gives the same loss and gradients as the uncompiled
# one, and whether XLA compiles both passes.
COMPARES = """
import numpy as np
import tensorflow as tf
from distrain_trainer.tensorflow.training import forward_of, loss_of

layers = tf.keras.layers
model = tf.keras.Sequential([layers.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.BatchNormalization(),
                             layers.Flatten(), layers.Dense(10)])
images = tf.random.stateless_normal((16, 8, 8, 3), (1, 2))
labels, weights = tf.range(16) % 10, tf.fill([16], 1 / 16)

def step_of(forward):
    def step():
        with tf.GradientTape() as tape:
            loss = loss_of(forward, images, labels, weights)
        return loss, tape.gradient(loss, model.trainable_variables)
    return tf.function(step)

plain, compiled = (step_of(forward_of(model, is_compiled=is_compiled)) for is_compiled in (False, True))
(loss, gradients), (other_loss, others) = plain(), compiled()
np.testing.assert_allclose(other_loss, loss, rtol=1e-5)
for gradient, other in zip(gradients, others, strict=True):
    np.testing.assert_allclose(other, gradient, rtol=1e-3, atol=1e-5)
functions = compiled.get_concrete_function().graph.as_graph_def().library.function
print(sum("_XlaMustCompile" in each.attr for each in functions))
with tf.GradientTape() as tape:
    tape.watch(images)
    loss = loss_of(forward_of(model, is_compiled=True), images, labels, weights)
gradient = tape.gradient(loss, images)
assert gradient is None or not np.any(gradient), "the gradient of the images was computed"
"""


def test_xla_compiles_both_passes_and_changes_neither_loss_nor_gradients(digits: Path) -> None:
    run = run_in_image("tensorflow", ["python3", "-c", COMPARES], digits, env=None, mounts=None, timeout=120)

    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 2


# Makes a step with a model that XLA cannot compile: its layer calls a Python function.
REFUSED = """
import tensorflow as tf
from distrain_trainer.errors import TrainerError
from distrain_trainer.tensorflow.training import forward_of, tell_refusal_by_xla

same = tf.keras.layers.Lambda(lambda image: tf.numpy_function(lambda array: array, [image], tf.float32))
model = tf.keras.Sequential([tf.keras.layers.Input((8,)), same])
step = tell_refusal_by_xla(tf.function(forward_of(model, is_compiled=True)))
try:
    step(tf.zeros((2, 8)))
except TrainerError as error:
    print(error.exit_code, error)
"""


def test_model_that_xla_cannot_compile_is_refused_in_one_line(digits: Path) -> None:
    run = run_in_image("tensorflow", ["python3", "-c", REFUSED], digits, env=None, mounts=None, timeout=120)

    assert run.returncode == 0, run.stderr
    words = "trainer.extraArgs: --compile: XLA cannot compile PyFunc, an operation of the model; remove --compile"
    assert run.stdout.splitlines() == [f"2 {words}"]


def test_run_without_a_gpu_says_that_it_does_not_compile(digits: Path) -> None:
    program = ProgramInImage.named("tensorflow-horovod", digits)

    run = program("--steps", "2", "--batch-size", "4", "--compile", ranks=1)

    assert run.returncode == 0, run.stderr
    assert "trainer.extraArgs: --compile needs a GPU and none is visible; the model is not compiled" in run.stdout
