"""Detect the format of the data at data.uri, and load it as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data import idx
from distrain_trainer.data.augmentation import Crops, Moments
from distrain_trainer.data.cache import Cache, say_unused
from distrain_trainer.data.images import REMEDY, Decoder, ImageFolder, is_image, look_at
from distrain_trainer.data.listing import list_names, naming_the_list
from distrain_trainer.data.samples import Samples, Shape, size_text
from distrain_trainer.data.shards import Shards, find_shards, first_sample
from distrain_trainer.errors import DataError
from distrain_trainer.models import MODELS, describe
from distrain_trainer.packages import require
from distrain_trainer.storage import Retry, Store, open_store

TRAIN, TESTS = "train/", ("val/", "test/")
EXPECTED = (
    "MNIST-format idx .gz files, one folder of .jpg or .png images per class, or .tar shards "
    "(images and shards may also be in train/ and val/)"
)


@dataclass(frozen=True)
class Dataset:
    """The samples for training and the samples for the test. Synthetic data has no test samples and no epochs."""

    train: Samples
    test: Samples | None
    classes: int

    @property
    def shape(self) -> Shape:
        """Height, width and channels of every image."""
        return self.train.shape

    @property
    def tests(self) -> int:
        """The number of test samples."""
        return len(self.test) if self.test else 0


def load(config: Config) -> Dataset:
    """Load the data that the values specify.

    Raises StorageError if the data cannot be read, and DataError if it cannot be used.
    """
    with naming_the_list(config):
        dataset = _load(config)
    if config.cache and not isinstance(dataset.train, Shards):
        say_unused(config)
    return dataset


def _load(config: Config) -> Dataset:
    if config.is_synthetic:
        return _synthetic(config)
    store = open_store(config.data, value="data.uri", retry=Retry())
    names = sorted(name for name in list_names(config, store) if not _is_hidden(name))
    read = {"idx": _read_idx, "images": _read_images, "shards": _read_shards}
    format_found = format_of(names, "") or format_of(names, TRAIN)
    if format_found is None:
        raise DataError(f"data.uri: {store.uri} holds {_some(names)}; correct data.uri, or put there {EXPECTED}")
    dataset = read[format_found](config, store, names)
    _require_shape_of_model(config, dataset.shape)
    _require_moments_of_channels(config, dataset.shape)
    return _with_classes(config, dataset)


def format_of(names: Sequence[str], folder: str) -> str | None:
    """Return the format of the files below `folder` ("idx", "images" or "shards"), or None if unknown."""
    inside = [name[len(folder) :] for name in names if name.startswith(folder)]
    if not folder and any(name in (*idx.TRAIN_FILES, *idx.TEST_FILES) for name in inside):
        return "idx"
    if any(name.endswith(".tar") and "/" not in name for name in inside):
        return "shards"
    return "images" if any("/" in name and is_image(name) for name in inside) else None


def folders_of(names: Sequence[str]) -> tuple[str, str | None]:
    """Return the folders of training and test data: train/ and either val/ or test/.

    If there is no train/, return "" (all files) and None. If train/ directly contains images, it is a class named train
    and not the folder of training data.
    """
    if format_of(names, TRAIN) is None:
        return "", None
    return TRAIN, next((folder for folder in TESTS if format_of(names, folder) is not None), None)


def _read_idx(config: Config, store: Store, names: Sequence[str]) -> Dataset:
    if config.image_size is not None:
        raise DataError(
            f"trainer.extraArgs: --image-size={config.image_size} scales only JPEG and PNG images, but {store.uri} "
            "holds idx files; remove it"
        )
    if config.augment_flip == "true":
        raise DataError(
            f"trainer.augment.flip: true mirrors only JPEG and PNG images, but {store.uri} holds idx files; remove it"
        )
    train, test = idx.read_idx_files(store, *idx.TRAIN_FILES), idx.read_idx_files(store, *idx.TEST_FILES)
    if train.shape != test.shape:
        raise DataError(
            f"data.uri: {store.uri} has training images of {size_text(train.shape)}, but test images of "
            f"{size_text(test.shape)}; give all images the same size"
        )
    classes = int(max(train.labels.max(), test.labels.max())) + 1
    moments = Moments.of(config)
    return Dataset(replace(train, moments=moments), replace(test, moments=moments), classes=classes)


def _read_images(config: Config, store: Store, names: Sequence[str]) -> Dataset:
    train_folder, test_folder = folders_of(names)
    train_names = _images_below(names, train_folder)
    classes = sorted(_classes_of(train_names, train_folder))
    decoder = _decoder(config, store.path(train_names[0]), store.read(train_names[0]))
    train = _image_folder(store, train_names, train_folder, classes, decoder)
    if test_folder is None:
        return Dataset(train, None, len(classes))
    test_decoder = replace(decoder, augments=False)
    test = _image_folder(store, _images_below(names, test_folder), test_folder, classes, test_decoder)
    return Dataset(train, test, len(classes))


def _images_below(names: Sequence[str], folder: str) -> list[str]:
    return [name for name in names if name.startswith(folder) and "/" in name[len(folder) :] and is_image(name)]


def _classes_of(names: Sequence[str], folder: str) -> set[str]:
    return {name[len(folder) :].partition("/")[0] for name in names}


def _image_folder(
    store: Store, names: Sequence[str], folder: str, classes: Sequence[str], decoder: Decoder
) -> ImageFolder:
    numbers = {name: number for number, name in enumerate(classes)}
    unknown = _classes_of(names, folder) - numbers.keys()
    if unknown:
        raise DataError(
            f"data.uri: {store.path(folder)} has the class {min(unknown)}, but {store.path(TRAIN)} does not; "
            "give both folders the same classes"
        )
    labels = np.array([numbers[name[len(folder) :].partition("/")[0]] for name in names], dtype=np.int64)
    return ImageFolder(store, names, labels, decoder)


def _read_shards(config: Config, store: Store, names: Sequence[str]) -> Dataset:
    train_folder, test_folder = folders_of(names)
    found = [
        find_shards(store, [name for name in names if _is_in(name, folder)], folder)
        for folder in (train_folder, test_folder)
        if folder is not None
    ]
    counted = [classes for _, classes in found if classes is not None]
    # If sizes.json exists, the labels have not been read yet. A label that is too large is then refused when its sample
    # is read.
    classes = max(counted if len(counted) == len(found) else [_known_classes(config), *counted])
    files = found[0][0]
    filled = next((file for file in files if file.samples), None)
    if filled is None:
        raise DataError(f"data.uri: the shards of {store.path(train_folder)} hold no sample; give shards with samples")
    first = first_sample(store, filled, classes=classes)
    decoder = _decoder(config, first.name, first.image)
    cache = Cache(Path(config.cache), config.cache_size) if config.cache else None
    train = Shards(store, files, classes, decoder, cache)
    if test_folder is None:
        return Dataset(train, None, classes)
    test = Shards(store, found[1][0], classes, replace(decoder, augments=False), cache)
    return Dataset(train, test, classes)


def _is_in(name: str, folder: str) -> bool:
    return name.startswith(folder) and "/" not in name[len(folder) :]


def _known_classes(config: Config) -> int:
    return config.classes or describe(config.model).classes


def _decoder(config: Config, name: str, content: bytes) -> Decoder:
    """Return the decoder. The decoder's image size is --image-size if set, otherwise the size of the first image."""
    require("pillow", "data.uri")
    size = config.image_size
    of_first, is_grey = look_at(content, name)
    shape = (size, size, 3) if size is not None else of_first
    model = describe(config.model)
    if model.smallest is None and size is None and shape != model.shape:
        raise DataError(
            f"trainer.model: {config.model} takes images of {size_text(model.shape)}, and {name} is "
            f"{size_text(shape)}; {REMEDY.format(model.shape[0])}"
        )
    flips = size is not None and not is_grey if config.augment_flip is None else config.augment_flip == "true"
    return Decoder(
        shape,
        scales=size is not None,
        first=name,
        augments=True,
        seed=config.seed,
        flips=flips,
        crops=Crops.of(config),
        moments=Moments.of(config),
    )


def _with_classes(config: Config, dataset: Dataset) -> Dataset:
    if config.classes is None:
        return dataset
    if config.classes < dataset.classes:
        raise DataError(
            f"trainer.extraArgs: --classes={config.classes} is fewer than the {dataset.classes} classes of "
            f"{config.data}; raise or remove it"
        )
    return replace(dataset, classes=config.classes)


def _synthetic(config: Config) -> Dataset:
    """Return a data set that consists of one batch of random noise."""
    model = describe(config.model)
    height, width, channels = model.shape
    if config.image_size is not None:
        height = width = config.image_size
    _require_shape_of_model(config, (height, width, channels))
    random = np.random.default_rng(config.seed)
    images = random.integers(0, 256, (config.batch_size, height, width, channels), dtype=np.uint8)
    classes = config.classes or model.classes
    return Dataset(idx.Arrays(images, random.integers(0, classes, config.batch_size)), test=None, classes=classes)


def _require_shape_of_model(config: Config, shape: Shape) -> None:
    model = describe(config.model)
    if model.smallest is not None:
        if min(shape[:2]) < model.smallest:
            raise DataError(
                f"data.uri: images of {size_text(shape)} are too small for trainer.model {config.model}; "
                f"give {model.smallest}x{model.smallest} or more"
            )
        return
    if shape == model.shape:
        return
    if config.image_size is not None:
        raise DataError(
            f"trainer.extraArgs: --image-size={config.image_size} makes images of {size_text(shape)}, but "
            f"trainer.model {config.model} takes {size_text(model.shape)}; make it --image-size={model.shape[0]}"
        )
    any_size = " or ".join(name for name, other in MODELS.items() if other.smallest is not None)
    raise DataError(
        f"trainer.model: {config.model} takes images of {size_text(model.shape)}, and data.uri holds "
        f"{size_text(shape)}; set trainer.model={any_size}"
    )


def _require_moments_of_channels(config: Config, shape: Shape) -> None:
    given = len(config.augment_mean)
    if given not in (0, 1, shape[-1]):
        raise DataError(
            f"trainer.augment.mean: has {given} numbers, but the images of {config.data} have {shape[-1]} channels; "
            f"give {shape[-1]} numbers, or one for all"
        )


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing"
