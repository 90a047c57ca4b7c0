"""Train with MXNet, one process per rank. Horovod averages the gradients.

Each line that exists only because the training is distributed is marked `# Distributed:`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import horovod.mxnet as hvd
import mxnet as mx
from mxnet.contrib import amp

from distrain_trainer.config import Config
from distrain_trainer.data import Batch, Dataset, evaluation_batches
from distrain_trainer.gpus import require_gpu_of_rank
from distrain_trainer.log import Log
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce, seed_python
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.mxnet import models
from distrain_trainer.mxnet.private import loss_scaler_of
from distrain_trainer.mxnet.state import GluonState
from distrain_trainer.mxnet.training import (
    Statistics,
    are_finite,
    choose_precision,
    count_right,
    make_loss,
    make_optimizer,
    require_asked_gpus,
    saver,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train, test and write the outcome. Return after every rank has finished."""
    require_asked_gpus()
    if config.deterministic:
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: joins the processes that mpirun started; each has a rank, 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: only rank 0 logs.
    device = choose_device()
    is_half = choose_precision(config, device, log)

    model, optimizer = build(config, dataset, device)
    share_start(model)
    # Distributed: averages the gradients over the ranks before the optimizer sees them.
    trainer = hvd.DistributedTrainer(model.collect_params(), optimizer)
    if is_half:
        amp.init_trainer(trainer)
    # Distributed: rank 0 acquires the run's checkpoints, and all ranks resume from the newest one.
    run = Run.begin(config, dataset, GluonState(model, trainer), process_group(), log)

    progress = train(dataset, model, trainer, run, device=device, is_half=is_half)
    run.save_end()
    # Distributed: each rank has its own batch normalization statistics. Test with rank 0's, which are saved.
    hvd.broadcast_parameters({each.name: each.data() for each in Statistics(model).parameters}, root_rank=0)
    accuracy = evaluate(config, dataset, model, device) if dataset.tests else None
    run.heed_stop()  # Distributed: all ranks stop if any was asked to.
    progress.finish(accuracy, model="model.params", save=saver(model, dataset.shape, device))
    # Distributed: wait, so that no rank exits with success before rank 0 has written the model.
    hvd.allreduce(mx.nd.zeros(1), name="end").wait_to_read()


def process_group() -> ProcessGroup:
    return dataclasses.replace(ProcessGroup.of_horovod(hvd), broadcast=broadcast)  # Distributed


def broadcast(value: Any) -> Any:
    """Return rank 0's value."""
    shared = hvd.broadcast_object(value, name="value")  # Distributed
    # Rank 0 has only queued the broadcast. Horovod would drop a second one of the same name, and the other ranks would
    # wait for it for ever.
    mx.nd.waitall()
    return shared


def choose_device() -> Any:
    """Return this rank's GPU, or the CPU if no GPU is visible. Raises DeviceError if there are more ranks than GPUs."""
    gpus = mx.context.num_gpus()
    if not gpus:
        return mx.cpu()
    require_gpu_of_rank(hvd.local_rank(), local_ranks=hvd.local_size(), visible=gpus)
    return mx.gpu(hvd.local_rank())  # Distributed: each rank of a machine takes a GPU of its own.


def build(config: Config, dataset: Dataset, device: Any) -> tuple[Any, Any]:
    """Return the untrained model and its optimizer."""
    mx.random.seed(config.seed + hvd.rank())  # Distributed: dropout then differs between ranks.
    seed_python(config.seed + hvd.rank())
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes, devices=[device])
    return model, make_optimizer(config)


def share_start(model: Any) -> None:
    """Broadcast rank 0's weights: averaging gradients requires equal weights on all ranks."""
    # Distributed: the optimizer's state needs no broadcast, as it starts from zeros on every rank.
    hvd.broadcast_parameters(model.collect_params(), root_rank=0)


def train(dataset: Dataset, model: Any, trainer: Any, run: Run, *, device: Any, is_half: bool = False) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    train_step = make_train_step(model, trainer, device, is_half)

    def make_step(batch: Batch, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        mx.random.seed(seed)
        trainer.set_learning_rate(rate)
        # Distributed: all ranks stop at the same step.
        largest = hvd.allreduce(mx.nd.array([asked]), op=hvd.Max, name="asked")
        loss = train_step(batch)
        return lambda: Outcome(loss, int(largest.asscalar()), mean_over_ranks)

    return make_steps(run, dataset, make_step)


def mean_over_ranks(loss: float) -> float:
    """Average the ranks' losses, which gives the loss of the global batch."""
    return float(hvd.allreduce(mx.nd.array([loss]), name="loss").asscalar())  # Distributed


def make_train_step(model: Any, trainer: Any, device: Any, is_half: bool) -> Callable[[Batch], float]:
    """Return the function that makes one step with a batch and returns this rank's loss.

    The loss is NaN if the step was left out, unless an fp16 loss scale above 1 is the cause.
    """
    loss_of, statistics = make_loss(model), Statistics(model)
    trained = [each for each in model.collect_params().values() if each.grad_req != "null"]

    def train_step(batch: Batch) -> float:
        statistics.keep()
        with mx.autograd.record():
            loss = loss_of(batch, device)
            if is_half:
                # fp16 cannot represent small gradients, so the loss is scaled up and the gradients are scaled back.
                with amp.scale_loss(loss, trainer) as scaled:
                    mx.autograd.backward(scaled)
        if not is_half:
            loss.backward()
        trainer.allreduce_grads()
        # Distributed: the averages are equal on all ranks, so all ranks leave the step out, or none does.
        is_left_out = not are_finite([each.grad() for each in trained])
        # With an fp16 loss scale above 1, the scale caused the overflow: the trainer skips the step and lowers it.
        is_scale = is_half and loss_scaler_of(trainer).loss_scale > 1
        if is_half or not is_left_out:
            # 1 instead of the batch size: the samples' weights have turned the sum into a mean already.
            trainer.update(1)
        if is_left_out or batch.is_empty:
            statistics.restore()
        # asscalar() waits for the step. Without it the step would only be queued.
        return math.nan if is_left_out and not is_scale else float(loss.asscalar())

    return train_step


def evaluate(config: Config, dataset: Dataset, model: Any, device: Any) -> float:
    """Return the model's accuracy on the test samples, between 0 and 1."""
    # Distributed: each rank tests on its own part of the samples.
    right = count_right(model, evaluation_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size()), device)
    total = hvd.allreduce(mx.nd.array([right], dtype="float64"), op=hvd.Sum, name="right")  # Distributed
    return float(total.asscalar()) / dataset.tests
