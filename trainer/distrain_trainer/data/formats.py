"""The samples: read whole by every rank, and dealt out so that each is trained on once per epoch over all ranks.

numpy alone, so that every framework's program takes its batches from here.
"""

from __future__ import annotations

import gzip
import itertools
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from distrain_trainer.config import Config
from distrain_trainer.errors import DataError
from distrain_trainer.storage import Store, open_store

TRAIN_FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
TEST_FILES = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
UNSIGNED_BYTES = 0x08

# Height, width, channels and classes of the data that each model is known for.
SYNTHETIC_SHAPES = {"mnist": (28, 28, 1, 10), "resnet50": (224, 224, 3, 1000), "vgg16": (224, 224, 3, 1000)}

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Images as bytes (count, height, width, channels) with a label each."""

    images: Bytes
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """What to train on, and what to test on; a synthetic one has nothing to test, and no epochs."""

    train: Samples
    test: Samples | None
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image."""
        height, width, channels = self.train.images.shape[1:]
        return height, width, channels

    @property
    def tests(self) -> int:
        """The number of test samples."""
        return len(self.test) if self.test else 0


@dataclass(frozen=True)
class Batch:
    """One rank's part of a step, of the same shape every step.

    A sample's weight is 0 where it only fills the last batch of an epoch up. Over all ranks the weights average 1,
    whatever each rank's count: so ranks that average their weighted sums get the mean over the global batch.
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    samples: int
    global_samples: int


def load(config: Config) -> Dataset:
    """Return the data that the values name. Raises StorageError or DataError when it cannot be had or used."""
    if config.is_synthetic:
        return _synthetic(config)
    store = open_store(config.data, value="data.uri")
    train, test = _read_samples(store, *TRAIN_FILES), _read_samples(store, *TEST_FILES)
    if train.images.shape[1:] != test.images.shape[1:]:
        raise DataError(
            f"data.uri: {store.uri} trains on {_size(train)} images and tests on {_size(test)} ones; make them alike"
        )
    _require_shape_of_model(config.model, train)
    return Dataset(train, test, classes=int(max(train.labels.max(), test.labels.max())) + 1)


def count_steps(config: Config, dataset: Dataset, *, ranks: int) -> int:
    """Return the steps of the run, all its epochs together. Raises DataError when there is no batch for all ranks."""
    if config.is_synthetic:
        assert config.steps is not None
        return config.steps
    samples, global_batch = len(dataset.train), config.batch_size * ranks
    if samples < ranks:
        raise DataError(
            f"workers.replicas: {ranks} ranks share {samples} training samples of {config.data}; "
            f"lower workers.replicas or workers.gpus"
        )
    if samples < global_batch:
        raise DataError(
            f"trainer.batchSize: {ranks} ranks of {config.batch_size} take {global_batch} samples a step, and "
            f"{config.data} has {samples}; lower trainer.batchSize to {samples // ranks} or less"
        )
    if config.steps is not None:
        return config.steps
    assert config.epochs is not None
    return config.epochs * math.ceil(samples / global_batch)


def train_batches(config: Config, dataset: Dataset, *, rank: int, ranks: int) -> Iterator[Batch]:
    """Yield one rank's batches, epoch after epoch, without end."""
    if config.is_synthetic:
        everything = np.arange(config.batch_size)
        return itertools.repeat(_batch(dataset.train, everything, config.batch_size, config.batch_size * ranks, ranks))
    return (
        _batch(dataset.train, mine, config.batch_size, global_samples, ranks)
        for epoch in itertools.count()
        for mine, global_samples in deal_epoch(
            len(dataset.train), config.batch_size, seed=config.seed, epoch=epoch, rank=rank, ranks=ranks
        )
    )


def evaluation_batches(config: Config, dataset: Dataset, *, rank: int, ranks: int) -> Iterator[Batch]:
    """Yield one rank's part of the test samples: none twice, none left out."""
    if dataset.test is None:
        return
    mine = np.arange(dataset.tests)[rank::ranks]
    for start in range(0, len(mine), config.batch_size):
        part = mine[start : start + config.batch_size]
        yield _batch(dataset.test, part, config.batch_size, len(part), 1)


def deal_epoch(
    samples: int, batch_size: int, *, seed: int, epoch: int, rank: int, ranks: int
) -> Iterator[tuple[Indices, int]]:
    """Yield, per step, which samples are this rank's, and how many all ranks have together.

    Every rank shuffles alike, by seed and epoch, and takes every ranks-th sample of each global batch. The last global
    batch holds what is left, so a rank's part of it may be smaller than another's, or empty.
    """
    order = np.random.default_rng((seed, epoch)).permutation(samples)
    for start in range(0, samples, batch_size * ranks):
        global_batch = order[start : start + batch_size * ranks]
        yield global_batch[rank::ranks], len(global_batch)


def _batch(samples: Samples, chosen: Indices, batch_size: int, global_samples: int, ranks: int) -> Batch:
    filled = np.zeros(batch_size, dtype=np.int64)
    filled[: len(chosen)] = chosen
    weights = np.zeros(batch_size, dtype=np.float32)
    weights[: len(chosen)] = ranks / global_samples
    images = samples.images[filled].astype(np.float32) / 255
    return Batch(images, samples.labels[filled], weights, len(chosen), global_samples)


def _synthetic(config: Config) -> Dataset:
    """Return one batch of noise, as the training benchmarks do: its speed is real, its loss means nothing."""
    height, width, channels, classes = SYNTHETIC_SHAPES[config.model]
    random = np.random.default_rng(config.seed)
    images = random.integers(0, 256, (config.batch_size, height, width, channels), dtype=np.uint8)
    return Dataset(Samples(images, random.integers(0, classes, config.batch_size)), test=None, classes=classes)


def _require_shape_of_model(model: str, samples: Samples) -> None:
    # The small CNN takes any size that two poolings leave something of.
    height, width, channels = samples.images.shape[1:]
    if model == "mnist" and min(height, width) < 4:
        raise DataError(f"data.uri: images of {_size(samples)} are too small for trainer.model mnist; give 4x4 or more")
    expected = SYNTHETIC_SHAPES[model][:3]
    if model != "mnist" and (height, width, channels) != expected:
        raise DataError(
            f"trainer.model: {model} takes images of {'x'.join(map(str, expected))}, and data.uri holds "
            f"{_size(samples)}; set trainer.model=mnist"
        )


def _read_samples(store: Store, images_name: str, labels_name: str) -> Samples:
    images = _read_idx(store, images_name, dimensions=3)[..., np.newaxis]
    labels = _read_idx(store, labels_name, dimensions=1).astype(np.int64)
    if len(images) != len(labels):
        raise DataError(
            f"data.uri: {store.uri} has {len(images)} images in {images_name} and {len(labels)} labels in "
            f"{labels_name}; upload the two files that belong together"
        )
    if len(images) == 0:
        raise DataError(f"data.uri: {store.uri}/{images_name} holds no image; upload one that does")
    return Samples(images, labels)


def _read_idx(store: Store, name: str, *, dimensions: int) -> Bytes:
    content = store.read(name)
    try:
        return parse_idx(gzip.decompress(content), dimensions=dimensions)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(f"data.uri: {store.uri.rstrip('/')}/{name} is damaged ({error}); upload it again") from None


def parse_idx(content: bytes, *, dimensions: int) -> Bytes:
    """Return the array of an idx file: two zero bytes, the type, the number of dimensions, each one's size, the data.

    Raises ValueError when it is none, or not of unsigned bytes in so many dimensions.
    """
    if content[:4] != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
        raise ValueError(f"it starts with {content[:4].hex()}, not with 0000{UNSIGNED_BYTES:02x}{dimensions:02x}")
    start = 4 + 4 * dimensions
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _size(samples: Samples) -> str:
    return "x".join(map(str, samples.images.shape[1:]))
