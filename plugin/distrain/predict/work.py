"""Collect what a run computes and exchanges in a step, from its job and its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from distrain.derive import models
from distrain.derive.figures import Trainer, size_of, trainer_of
from distrain.derive.formulas import gradient_bytes
from distrain.errors import ValuesError
from distrain.predict.gradients import DDP_BUCKET, HOROVOD_BUCKET, Bucket, buckets, even, of_model
from distrain.predict.network import Size
from distrain.workload.manifest import Job


class Work(Struct, frozen=True):
    """What a run computes and exchanges in a step, and how long the run is.

    `samples` is the number of samples in the whole run, or None if it is unknown. `steps` is None unless the values set
    a number of steps. `notes` describe what is assumed about the data.
    """

    model: str
    framework: str
    batch: int
    gradients: int
    bucket: int
    buckets: tuple[Bucket, ...]
    size: Size
    gpus: int
    steps: int | None = None
    samples: int | None = None
    p100_rate: float | None = None
    notes: tuple[str, ...] = ()


class Stated(Struct, frozen=True):
    """The figures that the user states: trainable parameters, batch, bucket in bytes and the samples of the whole run.

    `recorded` is the number of trainable parameters in the record of a run, and `epoch_samples` the record's number of
    samples per epoch.
    """

    parameters: int | None = None
    batch: int | None = None
    bucket: int | None = None
    samples: int | None = None
    recorded: int | None = None
    epoch_samples: int | None = None


def work_of(job: Job, values: Mapping[str, Any], gpu_resource: str, stated: Stated) -> Work:
    """Return what a run computes in a step: from the trainer's settings, or from flags for a program of the user."""
    found, trainer = size_of(job, gpu_resource), trainer_of(job)
    # An MXJob's worker has a rank on each of its GPUs, a TFJob's worker has a single rank.
    size = Size(found.workers, max(1, found.slots), found.servers)
    framework = str(values["framework"])
    bucket = stated.bucket or (DDP_BUCKET if found.kind == "PyTorchJob" else HOROVOD_BUCKET)
    model, batch, parameters = _described(trainer, stated)
    described = models.describe(model)
    counted = described.layers if trainer and trainer.is_usual and not stated.parameters else ()
    gradients = gradient_bytes(parameters)
    layers = of_model(counted, gradients) if counted else even(gradients)
    steps = trainer.steps if trainer and stated.samples is None else None
    in_steps = (steps or 0) * size.ranks * batch
    samples = stated.samples or _samples(trainer, described, stated.epoch_samples, in_steps)
    notes = _of_usual_images(trainer, described, stated)
    if samples and not (stated.samples or in_steps or stated.epoch_samples):
        notes += _of_usual_length(described.data_set)
    return Work(
        model,
        framework,
        batch,
        gradients,
        bucket,
        buckets(layers, bucket),
        size,
        found.gpus,
        steps,
        samples,
        described.p100_images_per_second if trainer and trainer.is_usual else None,
        notes,
    )


def _described(trainer: Trainer | None, stated: Stated) -> tuple[str, int, int]:
    """Return the model's name, the batch of a rank and the trainable parameters."""
    model = trainer.model if trainer else ""
    batch = stated.batch or (trainer.batch_size if trainer else None)
    # The record comes first: the images or classes of the run's data may change the model's size.
    parameters = stated.parameters or stated.recorded or (trainer.parameters if trainer else None)
    what = f"trainer.model: {model}" if trainer else "command: your own program"
    if parameters is None:
        raise ValuesError(
            f"{what} does not tell the size of its gradients; add --parameters N, its number of trainable parameters"
        )
    if batch is None:
        raise ValuesError(
            f"{what} does not tell its batch size; add --batch N, the number of samples per rank and step"
        )
    return model, batch, parameters


def _samples(trainer: Trainer | None, described: models.Model, recorded: int | None, in_steps: int) -> int | None:
    """Return the number of samples in the whole run, or None if it is unknown.

    If the length is set in epochs, the samples of an epoch are those in the record or, without a record, those of the
    model's usual data set.
    """
    if trainer is None or in_steps or not trainer.epochs:
        return in_steps or None
    each = recorded or (described.data_set.samples if described.data_set else None)
    return trainer.epochs * each if each else None


def _of_usual_images(trainer: Trainer | None, model: models.Model, stated: Stated) -> tuple[str, ...]:
    """Return a note if the gradients are those of the model's usual images, but other data changes their size."""
    if trainer is None or trainer.is_synthetic or stated.parameters or stated.recorded:
        return ()
    words = f"the data is assumed to have {model.usual_data}"
    return (f"gradients: {words}; give --record or --parameters if this is wrong",)


def _of_usual_length(data: models.DataSet | None) -> tuple[str, ...]:
    if data is None:
        return ()
    words = f"the data is assumed to be {data.name}, {data.samples:,} samples per epoch"
    return (f"length: {words}; give --samples if this is wrong",)
