"""Train with TensorFlow, one process per rank. Horovod averages the gradients.

Lines that only distributed training needs are marked with `# Distributed:`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset
from distrain_trainer.gpus import compiles, tell_precision
from distrain_trainer.log import Log
from distrain_trainer.loop import message
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.tensorflow import models
from distrain_trainer.tensorflow.allreduce_wait import AllReduceWait
from distrain_trainer.tensorflow.batches import TensorBatch, as_tensors
from distrain_trainer.tensorflow.ema import Ema
from distrain_trainer.tensorflow.optimizers import make_optimizer, with_decay
from distrain_trainer.tensorflow.state import KerasState
from distrain_trainer.tensorflow.training import (
    MODEL,
    are_finite,
    choose_device,
    choose_precision,
    count_right,
    forward_of,
    has_gpu,
    loss_of,
    make_deterministic,
    require_asked_gpus,
    seed,
    seeder,
    tell_refusal_by_xla,
    write_model,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train and test the model, and write the outcome. Returns when every rank has finished."""
    require_asked_gpus()
    if config.deterministic:
        make_deterministic()
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: connect the processes that mpirun started; each has a rank from 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: only rank 0 prints the log.
    choose_device(local_rank=hvd.local_rank(), local_size=hvd.local_size())
    choose_precision(config)
    tell_precision(config, log, has_gpu=has_gpu())

    model, optimizer = build(config, dataset)
    ema = Ema(config, model)
    # Distributed: rank 0 takes the lease on the run, and all ranks resume from the newest checkpoint.
    run = Run.begin(config, dataset, KerasState(model, optimizer, ema), ProcessGroup.of_horovod(hvd), log)
    if not run.position.samples:  # If the run resumes, all ranks have loaded the state from the same checkpoint.
        share_start(model, optimizer)

    def save(path: Path) -> None:
        with ema.applied():
            write_model(model, dataset.shape, path)

    evaluator = Evaluator(run, dataset.tests, functools.partial(evaluate, config, dataset, model, ema), save, MODEL)
    progress = train(dataset, model, optimizer, evaluator, ema)
    run.save_end()
    accuracy = evaluator.at_end()
    run.heed_stop()  # Distributed: all ranks stop if one was asked to stop.
    progress.finish(accuracy, model=MODEL, save=save)
    # Distributed: no rank may exit with 0 before rank 0 has written the model, so all ranks wait here.
    hvd.allreduce(tf.zeros([]), name="end")


def build(config: Config, dataset: Dataset) -> tuple[Any, Any]:
    """Return the untrained model, and its optimizer with all its state variables created."""
    seed(config, rank=hvd.rank())
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes)
    optimizer = make_optimizer(config, model.trainable_variables)
    if tf.keras.mixed_precision.global_policy().name == "mixed_float16":
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def share_start(model: Any, optimizer: Any) -> None:
    """Broadcast rank 0's weights and optimizer state, because all ranks must start from the same values."""
    hvd.broadcast_variables(model.variables, root_rank=0)  # Distributed
    hvd.broadcast_variables(optimizer.variables, root_rank=0)  # Distributed


def train(dataset: Dataset, model: Any, optimizer: Any, evaluator: Evaluator, ema: Ema) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    run = evaluator.run
    forward = forward_of(model, is_compiled=compiles(run.config, run.log, has_gpu=has_gpu()))
    train_step = tell_refusal_by_xla(
        make_train_step(run.config, model, forward, optimizer, ema, measures_wait=measures_wait(run))
    )
    ema.begin(run.position.step)

    def make_step(batch: TensorBatch, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        # Pass all numbers in one tensor, because creating each tensor takes time.
        numbers = tf.constant([rate, seed, asked], tf.float64)
        loss, told, wait = train_step(batch.images, batch.labels, batch.weights, numbers)

        def outcome() -> Outcome:
            own = float(loss)
            if told is None:
                return Outcome(own, asked)
            seconds = None if wait is None else float(wait)
            return message.outcome(own, told.numpy().tolist(), run.group.size, seconds)

        return outcome

    prepare = functools.partial(as_tensors, has_gpu=has_gpu())
    return make_steps(run, dataset, make_step, prepare=prepare, evaluator=evaluator)


def measures_wait(run: Run) -> bool:
    """Return whether the wait for the averaged gradients is measured.

    TensorFlow cannot read a GPU's clock, and in a deterministic run it refuses to read any clock.
    """
    return run.group.size > 1 and not has_gpu() and not run.config.deterministic


def make_train_step(
    config: Config,
    model: Any,
    forward: Callable[[Any], Any],
    optimizer: Any,
    ema: Ema,
    *,
    measures_wait: bool = False,
) -> Callable[..., Any]:
    """Return the function that makes one step.

    The step is a single graph, because each operation outside a graph adds overhead. The function's arguments are the
    tensors of a batch, and a float64[3] with the learning rate, the seed of layers such as dropout, and this rank's
    request to stop. The function returns three values. The first value is this rank's loss. The second value is the sum
    of the ranks' messages (distrain_trainer.loop.message), or None if there is only one rank. The third value is the
    number of seconds for which this rank has waited for the averaged gradients, or None unless `measures_wait`. If the
    step was left out, the loss is NaN. But if the step was left out with an fp16 loss scale above 1, the scale probably
    caused an overflow, and the loss is returned unchanged.
    """
    # Without do_not_convert, AutoGraph would convert all of Horovod, which is not needed and takes three seconds at
    # each start.
    allreduce = tf.autograph.experimental.do_not_convert(hvd.allreduce)
    is_scaled = isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer)
    seed_layers = tf.autograph.experimental.do_not_convert(seeder(model))
    counted = model.non_trainable_variables  # For example, batch normalization statistics.

    def train_step(images: Any, labels: Any, weights: Any, numbers: Any) -> Any:
        rate, seed, asked = tf.unstack(numbers)
        seed_layers(seed)
        optimizer.learning_rate.assign(tf.cast(rate, tf.float32))
        before = [tf.identity(variable) for variable in counted]
        wait = AllReduceWait()
        with wait.tape() if measures_wait else tf.GradientTape() as tape:
            loss = loss_of(forward, images, labels, weights, label_smoothing=config.label_smoothing)
            # fp16 cannot represent small gradients, so the loss is multiplied by a scale, and the gradients are divided
            # by it.
            target = optimizer.get_scaled_loss(loss) if is_scaled else loss
        told = None
        if hvd.size() > 1:
            # Distributed: sum the ranks' messages while the gradients are averaged.
            told = allreduce(message_of(loss, tf.cast(asked, tf.int32)), op=hvd.Sum, name="told")
            tape = hvd.DistributedGradientTape(tape)  # Distributed: average the gradients over the ranks.
        gradients = tf.autograph.experimental.do_not_convert(tape.gradient)(target, model.trainable_variables)
        seconds = tf.autograph.experimental.do_not_convert(wait.end)(gradients) if measures_wait else None
        gradients = optimizer.get_unscaled_gradients(gradients) if is_scaled else gradients
        # Distributed: all ranks have the same averages, so either all ranks leave the step out or none.
        is_told = is_left_out = tf.logical_not(are_finite(gradients))
        gradients = with_decay(config, gradients, model.trainable_variables)
        pairs = list(zip(gradients, model.trainable_variables, strict=True))
        if is_scaled:
            # If the loss scale is above 1, it may have caused the overflow, so this is no error. The optimizer itself
            # leaves the step out and lowers the loss scale.
            is_told = tf.logical_and(is_left_out, optimizer.loss_scale <= 1)
            optimizer.apply_gradients(pairs)
        else:
            tf.cond(is_left_out, lambda: True, lambda: apply(optimizer, pairs))
        is_counted = tf.logical_and(tf.logical_not(is_left_out), tf.reduce_any(weights > 0))
        for variable, old in zip(counted, before, strict=True):
            variable.assign(tf.where(is_counted, variable, old))
        tf.autograph.experimental.do_not_convert(ema.update)()
        return tf.where(is_told, np.nan, loss), told, seconds

    return tf.function(train_step)  # type: ignore[no-any-return]


def message_of(loss: Any, asked: Any) -> Any:
    """Return this rank's message in the format of distrain_trainer.loop.message."""
    reason = tf.one_hot(asked, message.SIZE - 1, dtype=tf.float64)
    return tf.concat([[tf.cast(loss, tf.float64)], reason], axis=0)


def apply(optimizer: Any, pairs: list[Any]) -> bool:
    """Apply the gradients. Return True, because both branches of tf.cond must return a boolean."""
    optimizer.apply_gradients(pairs)
    return True


def share_statistics(model: Any) -> None:
    """Broadcast rank 0's batch normalization statistics, so that all ranks test the model that rank 0 saves."""
    if counted := model.non_trainable_variables:
        hvd.broadcast_variables(counted, root_rank=0)  # Distributed


def evaluate(config: Config, dataset: Dataset, model: Any, ema: Ema) -> tuple[float, float]:
    """Test the model.

    Return how often the model's first choice is right, and how often one of its first five choices is right.
    """
    share_statistics(model)
    with ema.applied():
        right = count_right(config, dataset, model, rank=hvd.rank(), ranks=hvd.size())
    total = hvd.allreduce(tf.constant(right, tf.float64), op=hvd.Sum, name="right")  # Distributed
    top1, top5 = total.numpy().tolist()
    return top1, top5
