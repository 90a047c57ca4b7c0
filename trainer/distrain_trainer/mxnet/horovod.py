"""Train with MXNet, one process per rank. Horovod averages the gradients.

Lines that only distributed training needs are marked with `# Distributed:`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import horovod.mxnet as hvd
import mxnet as mx
from mxnet.contrib import amp

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, evaluation_batches
from distrain_trainer.gpus import require_gpu_of_rank
from distrain_trainer.log import Log
from distrain_trainer.loop import message
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce, seed_model
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.mxnet import models
from distrain_trainer.mxnet.batches import DeviceBatch, on_device
from distrain_trainer.mxnet.ema import Ema
from distrain_trainer.mxnet.optimizers import exempt_from_decay, make_optimizer
from distrain_trainer.mxnet.private import loss_scaler_of
from distrain_trainer.mxnet.state import GluonState, named
from distrain_trainer.mxnet.training import (
    MODEL,
    Loss,
    Statistics,
    are_finite,
    choose_precision,
    count_right,
    require_asked_gpus,
    saver,
    seeder,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train and test the model, and write the outcome. Returns when every rank has finished."""
    require_asked_gpus()
    if config.deterministic:
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: connect the processes that mpirun started; each has a rank from 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: only rank 0 prints the log.
    device = choose_device()
    is_half = choose_precision(config, device, log)

    model, optimizer = build(config, dataset, device)
    share_start(model)
    # Distributed: averages the gradients over the ranks before the optimizer sees them.
    trainer = hvd.DistributedTrainer(model.collect_params(), optimizer)
    if is_half:
        amp.init_trainer(trainer)
    ema = Ema(config, named(model))
    # Distributed: rank 0 takes the lease on the run, and all ranks resume from the newest checkpoint.
    run = Run.begin(config, dataset, GluonState(model, trainer, ema), process_group(), log)
    count, save = functools.partial(test, config, dataset, model, device, ema), saver(model, dataset.shape, device, ema)
    evaluator = Evaluator(run, dataset.tests, count, save, MODEL)

    progress = train(dataset, model, trainer, evaluator, ema, device=device, is_half=is_half)
    run.save_end()
    accuracy = evaluator.at_end()
    run.heed_stop()  # Distributed: all ranks stop if one was asked to stop.
    progress.finish(accuracy, model=MODEL, save=save)
    # Distributed: no rank may exit with 0 before rank 0 has written the model, so all ranks wait here.
    hvd.allreduce(mx.nd.zeros(1), name="end").wait_to_read()


def process_group() -> ProcessGroup:
    return dataclasses.replace(ProcessGroup.of_horovod(hvd), broadcast=broadcast)  # Distributed


def broadcast(value: Any) -> Any:
    """Return rank 0's value."""
    shared = hvd.broadcast_object(value, name="value")  # Distributed
    # So far, rank 0 has only queued the broadcast. Horovod would drop a second broadcast with the same name, and the
    # other ranks would then wait for it for ever.
    mx.nd.waitall()
    return shared


def choose_device() -> Any:
    """Return this rank's GPU, or the CPU if no GPU is visible.

    Raises DeviceError if a machine has more ranks than GPUs.
    """
    gpus = mx.context.num_gpus()
    if not gpus:
        return mx.cpu()
    require_gpu_of_rank(hvd.local_rank(), local_ranks=hvd.local_size(), visible=gpus)
    return mx.gpu(hvd.local_rank())  # Distributed: each rank on a machine uses a different GPU.


def build(config: Config, dataset: Dataset, device: Any) -> tuple[Any, Any]:
    """Return the untrained model and its optimizer."""
    # Distributed: a different seed on each rank gives different dropout.
    mx.random.seed(seed_model(config, rank=hvd.rank()))
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes, devices=[device])
    exempt_from_decay(model.collect_params().values())
    return model, make_optimizer(config)


def share_start(model: Any) -> None:
    """Broadcast rank 0's weights, because averaging gradients makes sense only if all ranks have the same weights."""
    # Distributed: the optimizer's state starts from zeros on every rank, so it need not be broadcast.
    hvd.broadcast_parameters(model.collect_params(), root_rank=0)


def train(
    dataset: Dataset, model: Any, trainer: Any, evaluator: Evaluator, ema: Ema, *, device: Any, is_half: bool = False
) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    run = evaluator.run
    train_step = make_train_step(model, trainer, is_half, run.config.label_smoothing)
    seed_layers = seeder(model)
    ema.begin(run.position.step)

    def make_step(batch: DeviceBatch, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        seed_layers(seed)
        trainer.set_learning_rate(rate)
        loss, told = train_step(batch, asked)
        ema.update()
        if told is None:
            return lambda: Outcome(loss, asked)
        return lambda: message.outcome(loss, told.asnumpy().tolist(), run.group.size)

    prepare = functools.partial(on_device, device=device)
    return make_steps(run, dataset, make_step, prepare=prepare, evaluator=evaluator)


def make_train_step(
    model: Any, trainer: Any, is_half: bool, label_smoothing: float = 0.0
) -> Callable[[DeviceBatch, int], tuple[float, Any]]:
    """Return the function that makes one step, given a batch and this rank's request to stop.

    The function returns this rank's loss and the sum of the ranks' messages (distrain_trainer.loop.message). The sum is
    None if there is only one rank. If the step was left out, the loss is NaN. But if the step was left out with an fp16
    loss scale above 1, the scale probably caused an overflow, and the loss is returned unchanged.
    """
    loss_of, statistics = Loss(model, label_smoothing), Statistics(model)
    trained = [each for each in model.collect_params().values() if each.grad_req != "null"]

    def train_step(batch: DeviceBatch, asked: int) -> tuple[float, Any]:
        statistics.keep()
        with mx.autograd.record():
            loss = loss_of(batch.images, batch.labels, batch.weights)
            if is_half:
                # fp16 cannot represent small gradients, so the loss is multiplied by a scale, and the gradients are
                # divided by it.
                with amp.scale_loss(loss, trainer) as scaled:
                    mx.autograd.backward(scaled)
        # Distributed: sum the ranks' messages, in addition to averaging the gradients. A single rank needs no sum.
        told = sum_of_ranks(message_of(loss, asked)) if hvd.size() > 1 else None
        if not is_half:
            loss.backward()
        trainer.allreduce_grads()
        # Distributed: all ranks have the same averages, so either all ranks leave the step out or none.
        is_left_out = not are_finite([each.grad() for each in trained])
        # If the fp16 loss scale is above 1, the scale is the likely cause of the overflow: MXNet's trainer skips this
        # step and lowers the scale.
        is_scale = is_half and loss_scaler_of(trainer).loss_scale > 1
        if is_half or not is_left_out:
            # Pass 1 instead of the batch size: the samples' weights have already turned the sum of the losses into a
            # mean.
            trainer.update(1)
        if is_left_out or batch.is_empty:
            statistics.restore()
        # asscalar() waits until the step is computed. Without asscalar(), the step would only be queued.
        return (math.nan if is_left_out and not is_scale else float(loss.asscalar())), told

    return train_step


def message_of(loss: Any, asked: int) -> Any:
    """Return this rank's message in the format of distrain_trainer.loop.message."""
    return mx.nd.concat(loss.astype("float64"), reason_on(loss.context, asked), dim=0)


@functools.cache
def reason_on(device: Any, asked: int) -> Any:
    """Return the part of this rank's message that contains its request to stop, as an array on the device.

    The array is cached, because MXNet takes long to create an array.
    """
    return mx.nd.one_hot(mx.nd.array([asked], ctx=device), message.SIZE - 1, dtype="float64").reshape(-1)


def sum_of_ranks(numbers: Any) -> Any:
    return hvd.allreduce(numbers, op=hvd.Sum, name="told")  # Distributed


def test(config: Config, dataset: Dataset, model: Any, device: Any, ema: Ema) -> tuple[float, float]:
    """Test the weights that will be saved. If the run keeps moving averages of the weights, test the averages."""
    # Distributed: each rank has its own batch normalization statistics, but only rank 0's are saved. So all ranks test
    # with rank 0's statistics.
    hvd.broadcast_parameters({each.name: each.data() for each in Statistics(model).parameters}, root_rank=0)
    mx.nd.waitall()  # Wait, because Horovod drops a broadcast if one with the same name is still queued.
    with ema.applied():
        return evaluate(config, dataset, model, device)


def evaluate(config: Config, dataset: Dataset, model: Any, device: Any) -> tuple[float, float]:
    """Test the model.

    Return how often the model's first choice is right, and how often one of its first five choices is right.
    """
    # Distributed: each rank tests on its own part of the samples.
    right = count_right(model, evaluation_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size()), device)
    total = hvd.allreduce(mx.nd.array(right, dtype="float64"), op=hvd.Sum, name="right")  # Distributed
    top1, top5 = total.asnumpy().tolist()
    return top1, top5
