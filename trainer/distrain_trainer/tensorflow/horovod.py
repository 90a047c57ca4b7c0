"""Train with TensorFlow, one process per rank, the gradients averaged by Horovod.

A line that exists only because the training is distributed says so: `# Distributed:`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, count_steps, train_batches
from distrain_trainer.log import Log
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce
from distrain_trainer.loop.run import ProcessGroup, Run
from distrain_trainer.results import write_outcome
from distrain_trainer.schedule import learning_rate
from distrain_trainer.tensorflow import models
from distrain_trainer.tensorflow.state import KerasState
from distrain_trainer.tensorflow.training import (
    are_finite,
    choose_device,
    choose_precision,
    count_right,
    counted_by,
    has_gpu,
    loss_of,
    make_deterministic,
    require_asked_gpus,
    seed,
    seeder,
    tell_precision,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train, test and write the outcome; returns once every rank has come to the end."""
    require_asked_gpus()
    if config.deterministic:
        make_deterministic()
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: joins the processes that mpirun started; each has a rank, 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: one rank speaks for all.
    choose_device(local_rank=hvd.local_rank(), local_size=hvd.local_size())
    choose_precision(config)
    tell_precision(config, log, gpus=has_gpu())

    model, optimizer = build(config, dataset)
    # Distributed: the ranks take their checkpoints over from whoever had them, and go on from the newest.
    run = Run.begin(config, dataset, KerasState(model, optimizer), process_group(), log)
    if not run.position.samples:  # A checkpoint is every rank's already.
        share_start(model, optimizer)

    progress = train(config, dataset, model, optimizer, log, run)
    share_statistics(model)
    accuracy = evaluate(config, dataset, model) if dataset.tests else None
    results = progress.end(config, world_size=hvd.size(), accuracy=accuracy)

    if config.output and hvd.rank() == 0:  # Distributed: the ranks' models are equal, so one writes it.
        write_outcome(config.output, results, log, model="model.keras", save=model.save)
    run.finish()
    # Distributed: no rank leaves, and so tells of success, before the model is written.
    hvd.allreduce(tf.zeros([]), name="end")


def process_group() -> ProcessGroup:
    # Distributed: with names, as Horovod takes the type's where there is none, and ranks have values of other types.
    broadcast = functools.partial(hvd.broadcast_object, name="value")
    return ProcessGroup(hvd.rank(), hvd.size(), broadcast, functools.partial(hvd.allgather_object, name="values"))


def build(config: Config, dataset: Dataset) -> tuple[Any, Any]:
    """Return the untrained model and its optimizer, whose state is there from the start."""
    seed(config, rank=hvd.rank())
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes)
    optimizer = tf.keras.optimizers.Adam() if config.optimizer == "adam" else tf.keras.optimizers.SGD(momentum=0.9)
    if tf.keras.mixed_precision.global_policy().name == "mixed_float16":
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def share_start(model: Any, optimizer: Any) -> None:
    """Start every rank from rank 0's weights and optimizer state, or averaged gradients would mean nothing."""
    hvd.broadcast_variables(model.variables, root_rank=0)  # Distributed
    hvd.broadcast_variables(optimizer.variables, root_rank=0)  # Distributed


def train(config: Config, dataset: Dataset, model: Any, optimizer: Any, log: Log, run: Run) -> Progress:
    """Train the model in place. Raises DivergedError when the loss is lost, StoppedError when asked to stop."""
    train_step = make_train_step(model, optimizer)
    seed_step = seeder(config, model, rank=hvd.rank())
    steps = count_steps(config, dataset, ranks=hvd.size(), start=run.position)
    # Distributed: each rank has its own part of the samples.
    batches = train_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size(), start=run.position)
    progress = Progress.start(config, steps, log, run)
    for step in range(run.position.step, steps):
        started = time.perf_counter()
        batch = run.watchdog.next(batches)
        seed_step(run.position.samples)
        # Distributed: the rate grows with the ranks, as the global batch does.
        optimizer.learning_rate = learning_rate(config, step=step, ranks=hvd.size())
        # As a number at once: it waits for a GPU, which else only has the step in its queue.
        loss, asked = map(float, train_step(batch.images, batch.labels, batch.weights, np.float32(run.asked)))
        progress.add(batch, loss=loss, seconds=time.perf_counter() - started, mean=mean_over_ranks)
        run.made_step(batch.global_samples, asked=int(asked))
    return progress


def mean_over_ranks(loss: float) -> float:
    """Return the loss of the global batch."""
    return float(hvd.allreduce(tf.constant(loss), name="loss"))  # Distributed


def make_train_step(model: Any, optimizer: Any) -> Callable[..., Any]:
    """Return the function of one step, compiled to a graph: batch in, this rank's loss out, NaN where it was left out.

    Beside it goes whether this rank was asked to stop, and comes whether any was.
    """
    # AutoGraph would rewrite all of Horovod, which needs none of it, in three seconds of each start.
    allreduce = tf.autograph.experimental.do_not_convert(hvd.allreduce)
    is_scaled = isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    counted = counted_by(model)

    def train_step(images: Any, labels: Any, weights: Any, asked: Any) -> Any:
        asked = allreduce(asked, op=hvd.Max, name="asked")  # Distributed: all ranks stop at the same step.
        before = [tf.identity(variable) for variable in counted]
        with tf.GradientTape() as tape:
            loss = loss_of(model, images, labels, weights)
            # fp16 holds no small gradients: they are computed of a larger loss, and divided again.
            target = optimizer.get_scaled_loss(loss) if is_scaled else loss
        tape = hvd.DistributedGradientTape(tape)  # Distributed: averages the gradients over the ranks.
        gradients = tf.autograph.experimental.do_not_convert(tape.gradient)(target, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(gradients) if is_scaled else gradients
        # Distributed: the averages are the same on all ranks, and so all leave a step out, or none.
        is_told = is_left_out = tf.logical_not(are_finite(gradients))
        pairs = list(zip(gradients, model.trainable_variables, strict=True))
        if is_scaled:
            # It leaves such a step out by itself, and looks for a scale that fp16 holds: until then nothing is wrong.
            is_told = tf.logical_and(is_left_out, optimizer.loss_scale <= 1)
            optimizer.apply_gradients(pairs)
        else:
            tf.cond(is_left_out, lambda: True, lambda: apply(optimizer, pairs))
        is_counted = tf.logical_and(tf.logical_not(is_left_out), tf.reduce_any(weights > 0))
        for variable, old in zip(counted, before, strict=True):
            variable.assign(tf.where(is_counted, variable, old))
        return tf.where(is_told, np.nan, loss), asked

    return tf.function(train_step)  # type: ignore[no-any-return]


def apply(optimizer: Any, pairs: list[Any]) -> bool:
    """Change the weights. Returns something, as the branches of a graph must."""
    optimizer.apply_gradients(pairs)
    return True


def share_statistics(model: Any) -> None:
    """Have all ranks test with rank 0's means of batch normalizations, which are those of the model that is saved."""
    if counted := counted_by(model):
        hvd.broadcast_variables(counted, root_rank=0)  # Distributed


def evaluate(config: Config, dataset: Dataset, model: Any) -> float:
    """Return the share of the test samples that the model gets right."""
    right = count_right(config, dataset, model, rank=hvd.rank(), ranks=hvd.size())
    total = hvd.allreduce(tf.constant(right, tf.float64), op=hvd.Sum, name="right")  # Distributed
    return float(total) / dataset.tests
