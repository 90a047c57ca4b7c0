"""Train with MXNet and parameter servers. The workers push gradients to the servers, and pull the updated weights.

Lines that only distributed training needs are marked with `# Distributed:`. This is the program of the workers. The
program of the servers and the scheduler is server.py.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import mxnet as mx

from distrain_trainer.config import Config
from distrain_trainer.data import (
    Dataset,
    Position,
    SampleCount,
    batches_from_beside,
    end_batches,
    evaluation_batches,
)
from distrain_trainer.errors import FinishedError, StoppedError
from distrain_trainer.log import Log
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import seed_model, seed_step
from distrain_trainer.loop.run import Run
from distrain_trainer.mxnet import models, private
from distrain_trainer.mxnet.barrier import Barrier
from distrain_trainer.mxnet.batches import DeviceBatch, on_device
from distrain_trainer.mxnet.collectives import Collectives
from distrain_trainer.mxnet.optimizers import decays
from distrain_trainer.mxnet.server import JobEnvironment
from distrain_trainer.mxnet.server_optimizer import NOTHING_BUT_SUMS, STATES, Keys, ServerOptimizer
from distrain_trainer.mxnet.state import ServersState
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

# fp16 cannot represent small gradients, so the loss is multiplied by this number, and the gradients are divided by it.
FP16_LOSS_SCALE = 128


@dataclasses.dataclass(frozen=True)
class Worker:
    """One worker of the job.

    Each GPU of the worker is a rank. A worker without GPUs is one rank, which computes on the CPU.
    """

    index: int
    devices: Sequence[Any]
    store: Any

    @property
    def ranks(self) -> int:
        """The number of ranks in the whole job."""
        return int(self.store.num_workers) * len(self.devices)

    @property
    def own_ranks(self) -> range:
        return range(self.index * len(self.devices), (self.index + 1) * len(self.devices))


def main(config: Config, dataset: Dataset) -> None:
    """Train and test the model, and write the outcome. Returns when every worker has finished."""
    job = JobEnvironment.from_environment()
    channel = job.join()  # Distributed: if one process of the job fails, all processes end.
    require_asked_gpus()
    # Distributed: wait until the scheduler, all servers and all workers have started.
    worker = Worker(job.index, choose_devices(), mx.kv.create(config.kvstore or "dist_sync"))
    log = Log(speaks=worker.index == 0)  # Distributed: only worker 0 prints the log.
    loss_scale = FP16_LOSS_SCALE if choose_precision(config, worker.devices[0], log) else 1

    model = build(config, dataset, worker)
    state = ServersState(model, worker.store, keys_of(config, model))
    collectives = open_collectives(config, worker, state.keys)
    try:
        # Distributed: worker 0 takes the lease on the run, and all workers resume from the newest checkpoint.
        run = Run.begin(config, dataset, state, process_group(worker, collectives), log)
        if config.checkpoint:
            channel.hear = run.request.ask  # Distributed: another process of the job was asked to stop.
        share_start(config, state, worker, loss_scale, run)
        progress = train(
            dataset, model, state.trained, run, worker=worker, collectives=collectives, loss_scale=loss_scale
        )
        take_final_weights(state.trained, worker)
        run.save_end()
        share_statistics(model, collectives)
        count = functools.partial(evaluate, config, dataset, model, worker, collectives)
        save = saver(model, dataset.shape, worker.devices[0])
        accuracy = Evaluator(run, dataset.tests, count, save, MODEL).at_end()
        run.heed_stop()  # Distributed: all workers stop if one was asked to stop.
    except FinishedError:
        channel.leave()
        raise
    except StoppedError:
        channel.stop()  # Distributed: let the scheduler and the servers stop too.
        raise
    progress.finish(accuracy, model=MODEL, save=save)
    # Distributed: no worker may exit with 0 before worker 0 has written the model, so all workers wait here.
    private.barrier(worker.store)
    channel.leave()


def choose_devices() -> list[Any]:
    """Return all GPUs that this worker sees, or its CPU."""
    return [mx.gpu(number) for number in range(mx.context.num_gpus())] or [mx.cpu()]


def build(config: Config, dataset: Dataset, worker: Worker) -> Any:
    """Return the untrained model."""
    # Distributed: use the same seed on all workers, so that they initialize the same weights.
    mx.random.seed(seed_model(config, rank=0))
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes, devices=worker.devices)
    # Distributed: a different seed on each rank gives different dropout.
    mx.random.seed(seed_model(config, rank=worker.index))
    return model


def keys_of(config: Config, model: Any) -> Keys:
    trained = [each for each in model.collect_params().values() if each.grad_req != "null"]
    # Distributed: the operator sets the number of servers in the environment.
    return Keys(len(trained), STATES[config.optimizer], servers=int(os.environ["DMLC_NUM_SERVER"]))


def open_collectives(config: Config, worker: Worker, keys: Keys) -> Collectives:
    """Make the servers add up the numbers that are pushed to them.

    The workers' collective operations need these sums.
    """
    if worker.index == 0:  # Distributed: one worker sends the optimizer to the servers.
        nothing = SampleCount(Position(), 1, config.batch_size, None)
        sums = ServerOptimizer(config, pushes=1, ranks=1, loss_scale=1, keys=NOTHING_BUT_SUMS, count=nothing)
        worker.store.set_optimizer(sums)
    private.barrier(worker.store)  # Distributed: from here on, every server has received the optimizer.
    return Collectives(worker.store, keys, index=worker.index)


def process_group(worker: Worker, collectives: Collectives) -> ProcessGroup:
    broadcast, gather = collectives.broadcast, collectives.gather  # Distributed
    return ProcessGroup(worker.index, worker.ranks, broadcast, gather, shares_state=False)


def share_start(config: Config, state: ServersState, worker: Worker, loss_scale: int, run: Run) -> None:
    """Put worker 0's weights, and the optimizer state of its checkpoint, on the servers.

    Every worker then starts from these weights.
    """
    store = worker.store
    state.put_weights(is_mine=worker.index == 0)  # Distributed
    if worker.index == 0:
        is_async = "async" in store.type
        pushes, ranks = (store.num_workers, len(worker.devices)) if is_async else (1, worker.ranks)
        count = SampleCount(run.position, worker.ranks, config.batch_size, run.subject.epoch_samples)
        exempt = [key for key, parameter in enumerate(state.trained) if not decays(parameter)]
        optimizer = ServerOptimizer(
            config, pushes=pushes, ranks=ranks, loss_scale=loss_scale, keys=state.keys, count=count, exempt=exempt
        )
        store.set_optimizer(optimizer)
    private.barrier(store)  # Distributed: from here on the servers treat pushed arrays as gradients.
    state.put_optimizer()  # Distributed


def train(
    dataset: Dataset,
    model: Any,
    parameters: Sequence[Any],
    run: Run,
    *,
    worker: Worker,
    collectives: Collectives,
    loss_scale: int = 1,
) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    train_step = make_train_step(model, parameters, worker, loss_scale, run.config.label_smoothing)
    seed_layers = seeder(model)
    # Distributed: each rank trains on its own part of the samples.
    sources = [
        batches_from_beside(
            run.config, dataset, rank=rank, ranks=worker.ranks, start=run.position, devices=len(worker.devices)
        )
        for rank in worker.own_ranks
    ]
    parts = [on_device(source, device) for source, device in zip(sources, worker.devices, strict=True)]
    run.metrics.begin_steps()
    progress = Progress.start(run)
    barrier = Barrier(collectives, worker.store, run)
    for step in range(run.position.step, run.steps):
        started = time.perf_counter()
        batches = [run.watchdog.next(part) for part in parts]
        # Distributed: each worker gets its own seed and its own dropout.
        seed_layers(seed_step(run.config, rank=worker.index, samples=run.position.samples))
        loss = train_step(batches)
        whole = dataclasses.replace(batches[0], samples=sum(batch.samples for batch in batches))
        seconds = time.perf_counter() - started
        run.metrics.made_step(samples=whole.samples, seconds=seconds, input_wait=run.watchdog.waited)
        progress.add(whole, loss=loss, seconds=seconds, mean=mean_over(worker, collectives))
        # Distributed: all workers wait here while worker 0 saves the servers' state.
        barrier.made_step(step + 1, whole.global_samples)
    for source in sources:
        end_batches(source)
    return progress


def mean_over(worker: Worker, collectives: Collectives) -> Callable[[float], float]:
    """Return the function that averages a loss over the workers.

    With dist_async the function returns the loss unchanged.
    """
    if "async" in worker.store.type:
        return lambda loss: loss  # Distributed: workers do not wait for each other, so worker 0 logs only its own loss.
    return lambda loss: collectives.sum(loss) / worker.store.num_workers  # Distributed


def make_train_step(
    model: Any, parameters: Sequence[Any], worker: Worker, loss_scale: int, label_smoothing: float
) -> Callable[[Sequence[DeviceBatch]], float]:
    """Return the function that makes one step.

    The function takes one batch per device, and returns this worker's mean loss.

    The loss is NaN if a gradient is not finite. The servers then leave this step out.
    """
    loss_of, statistics = Loss(model, label_smoothing), Statistics(model)

    def train_step(batches: Sequence[DeviceBatch]) -> float:
        statistics.keep()
        with mx.autograd.record():
            losses = [loss_of(batch.images, batch.labels, batch.weights) for batch in batches]
            targets = [loss * loss_scale for loss in losses]
        mx.autograd.backward(targets)
        gradients = [parameter.list_grad() for parameter in parameters]
        is_left_out = not all(are_finite(of_device) for of_device in zip(*gradients, strict=True))
        if is_left_out:
            # Distributed: push NaN in every gradient, so that the servers leave out this step for all layers.
            for array in itertools.chain(*gradients):
                array[:] = math.nan
        if is_left_out or all(batch.is_empty for batch in batches):
            statistics.restore()
        for key, parameter in enumerate(parameters):
            # Distributed: push the gradients and pull the new weights. The first layer has the highest priority,
            # because its weights are the first that the next step uses.
            worker.store.pushpull(key, parameter.list_grad(), out=parameter.list_data(), priority=-key)
        # asscalar() waits until the step is computed. Without asscalar(), the step would only be queued.
        return math.nan if is_left_out else float(sum(loss.asscalar() for loss in losses)) / len(losses)

    return train_step


def take_final_weights(parameters: Sequence[Any], worker: Worker) -> None:
    """Wait until every worker has made its last step, and pull the final weights from the servers."""
    mx.nd.waitall()
    private.barrier(worker.store)  # Distributed
    for key, parameter in enumerate(parameters):
        worker.store.pull(key, out=parameter.list_data())  # Distributed


def share_statistics(model: Any, collectives: Collectives) -> None:
    """Broadcast worker 0's batch normalization statistics, so that all workers test the model that worker 0 saves."""
    parameters = Statistics(model).parameters
    if parameters:
        values = collectives.broadcast([each.list_data()[0].asnumpy() for each in parameters])  # Distributed
        for each, value in zip(parameters, values, strict=True):
            each.set_data(value)


def evaluate(config: Config, dataset: Dataset, model: Any, worker: Worker, collectives: Collectives) -> tuple[int, int]:
    """Test the model.

    Return how often the model's first choice is right, and how often one of its first five choices is right.
    """
    # Distributed: each rank tests on its own part of the samples.
    parts = [evaluation_batches(config, dataset, rank=rank, ranks=worker.ranks) for rank in worker.own_ranks]
    counts = [count_right(model, part, device) for part, device in zip(parts, worker.devices, strict=True)]
    top1, top5 = (collectives.count(sum(right)) for right in zip(*counts, strict=True))  # Distributed
    return top1, top5
