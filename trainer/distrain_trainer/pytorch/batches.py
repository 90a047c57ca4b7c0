"""Turn batches into tensors, and copy them to a GPU while the GPU computes the previous step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from distrain_trainer.data import Batch

# The number of batches to copy to the GPU in advance.
AHEAD = 2


@dataclass(frozen=True)
class TensorBatch:
    """A Batch as tensors on the device; `images` have the shape (samples, height, width, channels)."""

    images: Any
    labels: Any
    weights: Any
    samples: int
    global_samples: int
    is_empty: bool

    @classmethod
    def of(cls, batch: Batch) -> TensorBatch:
        """Return CPU tensors that share the memory of the batch's arrays."""
        images, labels, weights = (torch.from_numpy(array) for array in (batch.images, batch.labels, batch.weights))
        return cls(images, labels, weights, batch.samples, batch.global_samples, batch.is_empty)

    def tensors(self) -> tuple[Any, Any, Any]:
        return self.images, self.labels, self.weights

    def to(self, device: Any) -> TensorBatch:
        """Copy the batch to page-locked memory, and from there to the GPU.

        The GPU makes the second copy while this process continues. On a CPU, nothing is copied.
        """
        if device.type == "cpu":
            return self
        images, labels, weights = (tensor.pin_memory().to(device, non_blocking=True) for tensor in self.tensors())
        return TensorBatch(images, labels, weights, self.samples, self.global_samples, self.is_empty)

    def channels_first(self, layout: Any) -> Any:
        """Return the images with the axis of channels before height and width, as PyTorch requires.

        With torch.contiguous_format, copy the images. Without the copy, gradients would inherit the channels-last
        layout, and Horovod refuses to average such gradients.
        """
        images = self.images.permute(0, 3, 1, 2)
        return images if layout == torch.channels_last else images.clone(memory_format=layout)


def upload_ahead(batches: Iterator[Batch], device: Any) -> Iterator[TensorBatch]:
    """Yield the batches as tensors on a GPU.

    The next batches are copied by a separate thread, in a separate CUDA stream.
    """
    stream = torch.cuda.Stream(device)
    thread = ThreadPoolExecutor(1)
    try:
        ahead = deque(thread.submit(_upload, batches, device, stream) for _ in range(AHEAD))
        while (uploaded := ahead.popleft().result()) is not None:
            ahead.append(thread.submit(_upload, batches, device, stream))
            batch, is_copied = uploaded
            _hand_over(batch, is_copied)
            yield batch
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _upload(batches: Iterator[Batch], device: Any, stream: Any) -> tuple[TensorBatch, Any] | None:
    """Start to copy the next batch. Return the batch, and the CUDA event that occurs when the copy is complete.

    Return None if there are no more batches.
    """
    batch = next(batches, None)
    if batch is None:
        return None
    with torch.cuda.stream(stream):
        return TensorBatch.of(batch).to(device), stream.record_event()


def _hand_over(batch: TensorBatch, is_copied: Any) -> None:
    """Make the current stream wait until the batch is copied.

    The batch's memory is not freed before that stream has used it.
    """
    current = torch.cuda.current_stream()
    current.wait_event(is_copied)
    for tensor in batch.tensors():
        tensor.record_stream(current)
