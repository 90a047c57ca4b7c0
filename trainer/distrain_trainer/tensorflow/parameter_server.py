"""Train with TensorFlow and asynchronous parameter servers.

The same command runs in every process of a TFJob. The parameter servers (ps) hold the weights and the optimizer. A
worker pulls the weights, computes the gradients of its own batch, and pushes the gradients. A worker does not wait for
other workers. The chief initializes the weights, logs the progress, saves checkpoints and writes the outcome.

Lines that only distributed training needs are marked with `# Distributed:`; most lines of this module are.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import tensorflow as tf

from distrain_trainer.checkpoint.arrays import require_same_model
from distrain_trainer.checkpoint.manifest import position_of
from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, Position, batches_from_beside, count_steps, end_batches
from distrain_trainer.errors import FinishedError, StoppedError
from distrain_trainer.gpus import compiles, tell_precision
from distrain_trainer.log import Log
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import seed_step
from distrain_trainer.loop.run import Run
from distrain_trainer.loop.stop_flag import StopRequest
from distrain_trainer.metrics import Figures, serve_metrics
from distrain_trainer.results import Accuracy
from distrain_trainer.schedule import learning_rate
from distrain_trainer.tensorflow import models
from distrain_trainer.tensorflow.barrier import ChiefBarrier, WorkerBarrier
from distrain_trainer.tensorflow.optimizers import with_decay
from distrain_trainer.tensorflow.processes import Cluster, Member
from distrain_trainer.tensorflow.shared_weights import SharedWeights
from distrain_trainer.tensorflow.state import model_fields
from distrain_trainer.tensorflow.training import (
    MODEL,
    are_finite,
    choose_device,
    choose_precision,
    count_right,
    forward_of,
    has_gpu,
    loss_of,
    require_asked_gpus,
    seed,
    seeder,
    tell_refusal_by_xla,
    write_model,
)

# fp16 cannot represent small gradients, so the loss is multiplied by this number, and the gradients are divided by it.
FP16_SCALE = 1024.0


@dataclass(frozen=True)
class StepReport:
    """A worker's report to the chief about one step.

    `asked` is the strongest request to stop that the worker has received or has read from a server, as a number in
    stop_flag.
    """

    samples: int
    global_samples: int
    loss: float
    seconds: float
    asked: float


def main(config: Config, dataset: Dataset | None) -> None:
    """Run as the task that TF_CONFIG assigns to this process. Returns when the chief has written the outcome."""
    cluster = Cluster.from_environment()  # Distributed: the operator sets each pod's task and all addresses.
    if cluster.task == "ps":
        serve(cluster, config)
        return
    assert dataset is not None
    # Distributed: if only one process failed here, the others would wait for it. So the chief and every worker make the
    # same check, before they connect.
    count_steps(config, dataset, ranks=cluster.workers)
    if cluster.task == "chief":
        lead(cluster, config, dataset)
    else:
        work(cluster, config, dataset)


def serve(cluster: Cluster, config: Config) -> None:
    """Run as a server: hold weights for the workers until the chief ends the run."""
    tf.config.set_visible_devices([], "GPU")
    member = Member(cluster)
    member.connect()
    if config.checkpoint:
        StopRequest().pass_on(member.ask_to_stop)  # Distributed: a stop signal to one process stops all processes.
    member.wait_for("end")


def lead(cluster: Cluster, config: Config, dataset: Dataset) -> None:
    """Run as the chief: initialize the weights, log the workers' steps and write the outcome.

    The chief does not train, and does not use a GPU.
    """
    tf.config.set_visible_devices([], "GPU")
    log = Log(speaks=True)  # Distributed: only the chief prints the log.
    seed(config, rank=0)
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes)
    member = Member(cluster)
    weights = SharedWeights(config, model, member)
    member.connect()  # Distributed: waits for every worker and server.
    weights.put()  # Distributed: all workers start from the chief's weights.
    have_gpus = all(gpus for (gpus,) in member.gather())
    tell_precision(config, log, has_gpu=have_gpus)
    compiles(config, log, has_gpu=have_gpus)
    run = resume(config, dataset, weights, member, log)

    # Distributed: all workers start at the position at which the chief resumes.
    member.tell_workers(f"train {json.dumps(asdict(run.position))}")
    try:
        progress = follow(member, run)
        run.save_end()
        accuracy = evaluate(dataset, member, run)
    except StoppedError:
        member.end_all("stop")
        raise

    def pull_and_save(path: Path) -> None:
        weights.pull()  # Distributed: get the trained weights from the servers.
        write_model(model, dataset.shape, path)

    progress.finish(accuracy, model=MODEL, save=pull_and_save)
    member.end_all()  # Distributed: no process may exit with 0 before the chief has written the model.


def resume(config: Config, dataset: Dataset, weights: SharedWeights, member: Member, log: Log) -> Run:
    """Take the lease on the run, and resume from its newest checkpoint.

    Only the chief calls this, so the group's broadcast and gather involve no other process.
    """
    group = ProcessGroup(0, member.cluster.workers, lambda value: value, lambda value: [value], shares_state=False)
    try:
        return Run.begin(config, dataset, weights, group, log)
    except FinishedError:
        member.end_all()
        raise


def follow(member: Member, run: Run) -> Progress:
    """Receive each worker's report of each step, log the progress, and save checkpoints.

    Raises DivergedError after too many bad steps, StoppedError on a request to stop.
    """
    barrier = ChiefBarrier(member, run.steps)
    progress = Progress.start(run)
    for step in range(run.position.step, run.steps):
        reports = [StepReport(int(own), int(all_), *rest) for own, all_, *rest in barrier.next_reports()]
        loss = fmean(report.loss for report in reports)
        seconds = fmean(report.seconds for report in reports)
        progress.add(reports[0], loss=loss, seconds=seconds, mean=lambda mean: mean)
        asked = max(run.asked, *(int(report.asked) for report in reports))
        if barrier.step is None and (asked or run.is_due):
            barrier.call()  # Distributed: a checkpoint needs all workers at the same step.
        meets = barrier.step == step + 1
        run.made_step(reports[0].global_samples, asked=asked if meets else 0, may_save=meets)
        if meets:
            barrier.release()
    barrier.end()
    return progress


def evaluate(dataset: Dataset, member: Member, run: Run) -> Accuracy | None:
    """Return the accuracy over the test samples of all workers, or None if there are no test samples.

    Stop if any process was asked to stop.
    """
    member.tell_workers("test")  # Distributed: no worker changes the weights from here on.
    answers = member.gather()
    servers = member.run(member.signs)[1:]  # Distributed: a stop request to any worker or server stops all processes.
    run.heed_stop(*(int(asked) for *_, asked in answers), *map(int, servers))
    if not dataset.tests:
        return None
    top1, top5, _ = (sum(each) / dataset.tests for each in zip(*answers, strict=True))
    return Accuracy(top1, top5)


def work(cluster: Cluster, config: Config, dataset: Dataset) -> None:
    """Run as a worker: train on its part of the training samples, then test on its part of the test samples."""
    choose_device(local_rank=0, local_size=1)
    choose_precision(config)
    seed(config, rank=cluster.index)
    model = models.build(config.model, shape=dataset.shape, classes=dataset.classes)
    member = Member(cluster)
    weights = SharedWeights(config, model, member)
    member.connect()
    require_asked_gpus()  # Distributed: check after connecting, or the others would wait for a worker that fails.
    member.report(has_gpu())

    # Distributed: by now the chief has written the weights to the servers.
    start = position_of(json.loads(member.wait_for("train")))
    request = StopRequest()
    if config.checkpoint:
        request.listen()
    train(config, dataset, model, weights, member, start, request)
    member.wait_for("test")  # Distributed: by now every worker has made its last step.
    weights.pull()
    right = count_right(config, dataset, model, rank=cluster.index, ranks=cluster.workers)
    member.report(*right, request.reason)
    member.wait_for("end")


def train(
    config: Config,
    dataset: Dataset,
    model: Any,
    weights: SharedWeights,
    member: Member,
    start: Position,
    request: StopRequest,
) -> None:
    """Make the steps of this worker from `start` to the end of the run."""
    gradients_of, fields = make_gradients(config, model), model_fields(model)
    rank, ranks, samples = member.cluster.index, member.cluster.workers, start.samples
    seed_layers = seeder(model)
    barrier = WorkerBarrier(member, weights)
    # Distributed: each worker trains on its own part of the samples.
    batches = batches_from_beside(config, dataset, rank=rank, ranks=ranks, start=start)
    metrics, input_wait = Figures(rank), 0.0
    metrics.begin_steps()
    serve_metrics(metrics, config.metrics_port)
    steps = count_steps(config, dataset, ranks=ranks, start=start)
    epoch_samples = None if config.is_synthetic else len(dataset.train)
    for step in range(start.step, steps):
        started = time.perf_counter()
        batch = next(batches)
        input_wait += time.perf_counter() - started
        weights.pull()  # Distributed: pull the weights, which other workers have changed since the last step.
        barrier.wait_before(step)  # Distributed: while the chief saves, all workers wait before the same step.
        seed_layers(seed_step(config, rank=rank, samples=samples))
        # Distributed: the servers make one update per batch of a worker, so use the learning rate for a single rank.
        rate = learning_rate(config, step=step, ranks=1, updates=ranks, samples=samples, epoch_samples=epoch_samples)
        samples += batch.global_samples
        loss, gradients = gradients_of(batch.images, batch.labels, batch.weights)
        if step == start.step:
            # Refuse a step that has added variables to the model: the servers do not have them.
            require_same_model(model_fields(model), fields)
        # Without samples or with a non-finite gradient, push nothing: the weights on the servers stay as they are.
        if math.isfinite(loss) and not batch.is_empty:
            weights.push(gradients, rate=rate)
        # Distributed: a stop request to any worker or server stops all processes.
        asked = max(request.reason, *weights.signs[1:])
        seconds = time.perf_counter() - started
        metrics.made_step(samples=batch.samples, seconds=seconds, input_wait=input_wait)
        report = StepReport(batch.samples, batch.global_samples, float(loss), seconds, asked)
        member.report(*astuple(report))  # Distributed
    end_batches(batches)
    barrier.report(steps)


def make_gradients(config: Config, model: Any) -> Callable[..., Any]:
    """Return a function, compiled to a graph, that computes the loss and the gradients of a batch.

    The loss is NaN if any gradient is not finite, for example after an overflow in fp16.
    """
    is_scaled = tf.keras.mixed_precision.global_policy().name == "mixed_float16"
    forward = forward_of(model, is_compiled=config.compile and has_gpu())

    def gradients_of(images: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            loss = loss_of(forward, images, labels, weights, label_smoothing=config.label_smoothing)
            target = loss * FP16_SCALE if is_scaled else loss
        gradients = tape.gradient(target, model.trainable_variables, unconnected_gradients="zero")
        loss = tf.where(are_finite(gradients), loss, np.nan)
        gradients = [gradient / FP16_SCALE for gradient in gradients] if is_scaled else gradients
        return loss, with_decay(config, gradients, model.trainable_variables)

    return tell_refusal_by_xla(tf.function(gradients_of))
