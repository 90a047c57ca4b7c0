"""Train with TensorFlow, one process per rank. Horovod averages the gradients.

Each line that exists only because the training is distributed is marked `# Distributed:`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from distrain_trainer.config import Config
from distrain_trainer.data import Batch, Dataset
from distrain_trainer.gpus import tell_precision
from distrain_trainer.log import Log
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.tensorflow import models
from distrain_trainer.tensorflow.allreduce_wait import AllReduceWait
from distrain_trainer.tensorflow.state import KerasState
from distrain_trainer.tensorflow.training import (
    are_finite,
    choose_device,
    choose_precision,
    count_right,
    has_gpu,
    loss_of,
    make_deterministic,
    require_asked_gpus,
    save,
    seed,
    seeder,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train, test and write the outcome. Return after every rank has finished."""
    require_asked_gpus()
    if config.deterministic:
        make_deterministic()
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: joins the processes that mpirun started; each has a rank, 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: only rank 0 logs.
    choose_device(local_rank=hvd.local_rank(), local_size=hvd.local_size())
    choose_precision(config)
    tell_precision(config, log, has_gpu=has_gpu())

    model, optimizer = build(config, dataset)
    # Distributed: rank 0 acquires the run's checkpoints, and all ranks resume from the newest one.
    run = Run.begin(config, dataset, KerasState(model, optimizer), ProcessGroup.of_horovod(hvd), log)
    if not run.position.samples:  # All ranks have loaded the same checkpoint otherwise.
        share_start(model, optimizer)

    progress = train(dataset, model, optimizer, run)
    run.save_end()
    share_statistics(model)
    accuracy = evaluate(config, dataset, model) if dataset.tests else None
    run.heed_stop()  # Distributed: all ranks stop if any was asked to.
    progress.finish(accuracy, model="model.keras", save=functools.partial(save, model, dataset.shape))
    # Distributed: wait, so that no rank exits with success before rank 0 has written the model.
    hvd.allreduce(tf.zeros([]), name="end")


def build(config: Config, dataset: Dataset) -> tuple[Any, Any]:
    """Return the untrained model and its optimizer with all of its state variables."""
    seed(config, rank=hvd.rank())
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes)
    optimizer = tf.keras.optimizers.Adam() if config.optimizer == "adam" else tf.keras.optimizers.SGD(momentum=0.9)
    if tf.keras.mixed_precision.global_policy().name == "mixed_float16":
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def share_start(model: Any, optimizer: Any) -> None:
    """Broadcast rank 0's weights and optimizer state: averaging gradients requires equal weights on all ranks."""
    hvd.broadcast_variables(model.variables, root_rank=0)  # Distributed
    hvd.broadcast_variables(optimizer.variables, root_rank=0)  # Distributed


def train(dataset: Dataset, model: Any, optimizer: Any, run: Run) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    train_step, seed_layers = make_train_step(model, optimizer, measures_wait=measures_wait(run)), seeder(model)

    def make_step(batch: Batch, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        seed_layers(seed)
        optimizer.learning_rate = rate
        loss, largest, wait = train_step(batch.images, batch.labels, batch.weights, np.float32(asked))

        def outcome() -> Outcome:
            seconds = None if math.isnan(wait) else float(wait)
            return Outcome(float(loss), int(largest), mean_over_ranks, seconds)

        return outcome

    return make_steps(run, dataset, make_step)


def measures_wait(run: Run) -> bool:
    """Return whether to measure the wait for the averages of the gradients.

    TensorFlow has no clock for it on a GPU, and refuses to tell the time in a deterministic run.
    """
    return run.group.size > 1 and not has_gpu() and not run.config.deterministic


def mean_over_ranks(loss: float) -> float:
    """Average the ranks' losses, which gives the loss of the global batch."""
    return float(hvd.allreduce(tf.constant(loss), name="loss"))  # Distributed


def make_train_step(model: Any, optimizer: Any, *, measures_wait: bool = False) -> Callable[..., Any]:
    """Return the function that makes one step, compiled to a graph.

    Its arguments are a batch's arrays and this rank's request to stop, 0 for none. It returns this rank's loss, the
    largest request of all ranks, and the seconds of the wait for the averages, NaN unless `measures_wait`. The loss is
    NaN if the step was left out, unless an fp16 loss scale above 1 is the cause.
    """
    # AutoGraph would convert all of Horovod, which takes three seconds at each start and has no use.
    allreduce = tf.autograph.experimental.do_not_convert(hvd.allreduce)
    is_scaled = isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    counted = model.non_trainable_variables  # For example batch normalization statistics.

    def train_step(images: Any, labels: Any, weights: Any, asked: Any) -> Any:
        asked = allreduce(asked, op=hvd.Max, name="asked")  # Distributed: all ranks stop at the same step.
        before = [tf.identity(variable) for variable in counted]
        wait = AllReduceWait()
        with wait.tape() if measures_wait else tf.GradientTape() as tape:
            loss = loss_of(model, images, labels, weights)
            # fp16 cannot represent small gradients, so the loss is scaled up and the gradients are scaled back.
            target = optimizer.get_scaled_loss(loss) if is_scaled else loss
        tape = hvd.DistributedGradientTape(tape)  # Distributed: averages the gradients over the ranks.
        gradients = tf.autograph.experimental.do_not_convert(tape.gradient)(target, model.trainable_variables)
        seconds = tf.autograph.experimental.do_not_convert(wait.end)(gradients)
        gradients = optimizer.get_unscaled_gradients(gradients) if is_scaled else gradients
        # Distributed: the averages are equal on all ranks, so all ranks leave the step out, or none does.
        is_told = is_left_out = tf.logical_not(are_finite(gradients))
        pairs = list(zip(gradients, model.trainable_variables, strict=True))
        if is_scaled:
            # The optimizer leaves the step out itself and lowers the scale. With a scale above 1 this is no error.
            is_told = tf.logical_and(is_left_out, optimizer.loss_scale <= 1)
            optimizer.apply_gradients(pairs)
        else:
            tf.cond(is_left_out, lambda: True, lambda: apply(optimizer, pairs))
        is_counted = tf.logical_and(tf.logical_not(is_left_out), tf.reduce_any(weights > 0))
        for variable, old in zip(counted, before, strict=True):
            variable.assign(tf.where(is_counted, variable, old))
        return tf.where(is_told, np.nan, loss), asked, seconds

    return tf.function(train_step)  # type: ignore[no-any-return]


def apply(optimizer: Any, pairs: list[Any]) -> bool:
    """Apply the gradients. Return True, as both branches of tf.cond must return the same type."""
    optimizer.apply_gradients(pairs)
    return True


def share_statistics(model: Any) -> None:
    """Broadcast rank 0's batch normalization statistics, so that all ranks test the model that rank 0 saves."""
    if counted := model.non_trainable_variables:
        hvd.broadcast_variables(counted, root_rank=0)  # Distributed


def evaluate(config: Config, dataset: Dataset, model: Any) -> float:
    """Return the model's accuracy on the test samples, between 0 and 1."""
    right = count_right(config, dataset, model, rank=hvd.rank(), ranks=hvd.size())
    total = hvd.allreduce(tf.constant(right, tf.float64), op=hvd.Sum, name="right")  # Distributed
    return float(total) / dataset.tests
