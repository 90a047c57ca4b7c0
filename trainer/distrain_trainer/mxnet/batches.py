"""Turn batches into arrays on the device, with the axis of channels before height and width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import mxnet as mx

from distrain_trainer.data import Batch
from distrain_trainer.mxnet.models import to_model


@dataclass(frozen=True)
class DeviceBatch:
    """A Batch as arrays on the device. `images` have the shape (samples, channels, height, width)."""

    images: Any
    labels: Any
    weights: Any
    samples: int
    global_samples: int
    is_empty: bool

    @classmethod
    def of(cls, batch: Batch, device: Any) -> DeviceBatch:
        labels, weights = (mx.nd.array(each, ctx=device) for each in (batch.labels, batch.weights))
        images = to_model(batch.images, device)
        return cls(images, labels, weights, batch.samples, batch.global_samples, batch.is_empty)


def on_device(batches: Iterator[Batch], device: Any) -> Iterator[DeviceBatch]:
    """Yield the batches as arrays on the device."""
    if isinstance(batches, repeat):
        # Synthetic data repeats a single batch, so keep that batch on the device.
        return repeat(DeviceBatch.of(next(batches), device))
    return (DeviceBatch.of(batch, device) for batch in batches)
