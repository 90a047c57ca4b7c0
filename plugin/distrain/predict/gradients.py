"""Put a model's gradients into the buckets in which the ranks exchange them.

The backward pass makes the gradients of the last layer first. DDP and Horovod collect the gradients in that order, and
exchange a bucket as soon as all of its gradients are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

# Default bucket sizes: 25 MiB is DDP's bucket_cap_mb, and 128 MiB is Horovod's HOROVOD_FUSION_THRESHOLD since 0.21 (64
# MiB before).
DDP_BUCKET = 25 * 2**20
HOROVOD_BUCKET = 128 * 2**20
# A backward pass takes about twice as long as a forward pass: for each layer it computes two matrix products, and the
# forward pass one.
FORWARD_SHARE = 1 / 3
# If a model's layers are unknown, it is treated as this number of equal layers.
EVEN_LAYERS = 16


class Layer(Struct, frozen=True):
    """A layer's gradients in bytes, and its share of the time of the backward pass."""

    size: float
    share: float


class Bucket(Struct, frozen=True):
    """Gradients that are exchanged together.

    `ready` is the share of a rank's compute time after which all gradients of the bucket are computed.
    """

    size: float
    ready: float


def even(size: float, layers: int = EVEN_LAYERS) -> list[Layer]:
    """Split `size` bytes of gradients into layers that have the same size and need the same compute time."""
    return [Layer(size / layers, 1 / layers)] * layers


def buckets(layers: Sequence[Layer], most: float, *, overlaps: bool = True) -> tuple[Bucket, ...]:
    """Return the buckets of at most `most` bytes; `layers` are in the order of the backward pass, the last one first.

    A layer of more than `most` bytes becomes a bucket of its own, as in DDP and Horovod. Without overlap, all buckets
    are ready only at the end of the backward pass.
    """
    found: list[Bucket] = []
    collected, done = 0.0, 0.0
    for layer in layers:
        if collected and collected + layer.size > most:
            found.append(Bucket(collected, _ready(done, overlaps)))
            collected = 0.0
        done += layer.share
        collected += layer.size
    return (*found, Bucket(collected, _ready(done, overlaps))) if collected else tuple(found)


def late(found: Sequence[Bucket]) -> tuple[Bucket, ...]:
    """Return the buckets as parameter servers exchange them: none is ready before the end of the backward pass.

    A server sends weights only after it has received all gradients.
    """
    return tuple(replace(bucket, ready=1.0) for bucket in found)


def _ready(done: float, overlaps: bool) -> float:
    return min(1.0, FORWARD_SHARE + (1 - FORWARD_SHARE) * done) if overlaps else 1.0


def of_model(counted: Sequence[tuple[int, int]], size: float) -> list[Layer]:
    """Return the layers of a model in the order of the backward pass, for `size` bytes of gradients.

    `counted` has each layer's parameters and multiplications in the order of the forward pass.
    """
    if not counted:
        return even(size)
    parameters, work = (sum(numbers) for numbers in zip(*counted, strict=True))
    return [Layer(size * number / parameters, part / work) for number, part in reversed(counted)]
