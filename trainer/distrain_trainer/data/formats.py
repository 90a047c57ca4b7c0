"""Load the data at data.uri as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from distrain_trainer.config import Config
from distrain_trainer.data import idx
from distrain_trainer.data.augmentation import Crops, Moments
from distrain_trainer.data.cache import Cache, say_unused
from distrain_trainer.data.images import REMEDY, Decoder, ImageFolder, is_image, shape_of
from distrain_trainer.data.listing import list_names, naming_the_list
from distrain_trainer.data.samples import Samples, Shape, size_text
from distrain_trainer.data.shards import Shard, Shards, find_shards, first_sample, shuffle_buffer_for
from distrain_trainer.data.splits import TRAIN, find_data, some
from distrain_trainer.errors import DamagedSampleError, DataError
from distrain_trainer.models import MODELS, describe
from distrain_trainer.packages import require
from distrain_trainer.storage import Retry, Store, open_store


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
    format_found, train_folder, test_folder = find_data(store, names)
    dataset = read[format_found](config, store, names, train_folder, test_folder)
    _require_shape_of_model(config, dataset.shape)
    _require_moments_of_channels(config, dataset.shape)
    _require_tests(config, dataset)
    return _with_classes(config, dataset)


def _read_idx(
    config: Config, store: Store, names: Sequence[str], train_folder: str, test_folder: str | None
) -> Dataset:
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
    places = [store.path(labels) for _, labels in (idx.TRAIN_FILES, idx.TEST_FILES)]
    classes = _common_classes(config, places, int(train.labels.max()) + 1, int(test.labels.max()) + 1)
    moments = Moments.of(config)
    return Dataset(replace(train, moments=moments), replace(test, moments=moments), classes=classes)


def _common_classes(config: Config, places: Sequence[str], train: int, test: int) -> int:
    """Return the number of classes. Raises DataError if only the test data has some of them.

    `train` and `test` are the numbers of classes in the two `places`. --classes may be higher than the number of
    classes in the training data, and then the test data may have all of these classes.
    """
    if test > train and config.classes is None:
        raise DataError(
            f"data.uri: {places[1]} has a sample of class {test - 1}, but the largest class of {places[0]} is "
            f"{train - 1}; give both the same classes, or add --classes={test} to trainer.extraArgs"
        )
    return max(train, test)


def _read_images(
    config: Config, store: Store, names: Sequence[str], train_folder: str, test_folder: str | None
) -> Dataset:
    train_names = _images_below(config, store, names, train_folder)
    classes = sorted(_classes_of(train_names, train_folder))
    decoder = _decoder(config, store.path(train_names[0]), store.read(train_names[0]))
    train = _image_folder(store, train_names, train_folder, classes, decoder)
    if test_folder is None:
        return Dataset(train, None, len(classes))
    test_names = _images_below(config, store, names, test_folder)
    test = _image_folder(store, test_names, test_folder, classes, replace(decoder, augments=False))
    if not decoder.scales:
        _require_size_of_tests(decoder, store.path(test_names[0]), store.read(test_names[0]))
    return Dataset(train, test, len(classes))


def _images_below(config: Config, store: Store, names: Sequence[str], folder: str) -> list[str]:
    """Return the images in the classes' folders. Raises DataError if the folder of a class holds no image.

    Without such a class, the other classes would get other numbers. A folder to which this run writes is no class.
    """
    images, others = list[str](), list[str]()
    for name in names:
        if name.startswith(folder) and "/" in name[len(folder) :]:
            (images if is_image(name) else others).append(name)
    for name in sorted(_classes_of(others, folder) - _classes_of(images, folder) if others else ()):
        place = f"{store.path(folder + name)}/"
        if not any(uri.startswith(place) for uri in (config.output, config.checkpoint)):
            held = some(
                [other.removeprefix(f"{folder}{name}/") for other in others if other.startswith(f"{folder}{name}/")]
            )
            raise DataError(
                f"data.uri: {place} holds {held}, and no .jpg, .jpeg or .png; convert its images, or move the folder "
                "to another place"
            )
    return images


def _require_size_of_tests(decoder: Decoder, name: str, content: bytes) -> None:
    """Raise DataError if the first test image has another size than the training images.

    Otherwise the size would be found only after the last epoch. A damaged image is left to the test, which counts it.
    """
    with suppress(DamagedSampleError):
        decoder.require_size(shape_of(content, name), name)


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


def _read_shards(
    config: Config, store: Store, names: Sequence[str], train_folder: str, test_folder: str | None
) -> Dataset:
    folders = [folder for folder in (train_folder, test_folder) if folder is not None]
    found = [find_shards(store, [name for name in names if _is_in(name, folder)], folder) for folder in folders]
    filled = [_first_filled(store, files, folder) for (files, _), folder in zip(found, folders, strict=True)]
    classes = _classes_of_shards(config, [store.path(folder) for folder in folders], [counted for _, counted in found])
    first = first_sample(store, filled[0], classes=classes)
    decoder = _decoder(config, first.name, first.image)
    cache = Cache(Path(config.cache), config.cache_size) if config.cache else None
    train = Shards(store, found[0][0], classes, decoder, cache, shuffle_buffer_for(store, filled[0]))
    if test_folder is None:
        return Dataset(train, None, classes)
    if not decoder.scales:
        first = first_sample(store, filled[1], classes=classes)
        _require_size_of_tests(decoder, first.name, first.image)
    test = Shards(store, found[1][0], classes, replace(decoder, augments=False), cache)
    return Dataset(train, test, classes)


def _is_in(name: str, folder: str) -> bool:
    return name.startswith(folder) and "/" not in name[len(folder) :]


def _classes_of_shards(config: Config, places: Sequence[str], counted: Sequence[int | None]) -> int:
    """Return the number of classes. `counted` are the numbers of classes in the places, or None for unread labels.

    If sizes.json exists, the labels have not been read yet. A label that is too large is then refused when its sample
    is read.
    """
    if None in counted:
        return max(config.classes or describe(config.model).classes, *(each or 0 for each in counted))
    return _common_classes(config, [places[0], places[-1]], counted[0] or 0, counted[-1] or 0)


def _first_filled(store: Store, files: Sequence[Shard], folder: str) -> Shard:
    filled = next((file for file in files if file.samples), None)
    if filled is None:
        raise DataError(f"data.uri: the shards of {store.path(folder)} hold no sample; give shards with samples")
    return filled


def _decoder(config: Config, name: str, content: bytes) -> Decoder:
    """Return the decoder. The decoder's image size is --image-size if set, otherwise the size of the first image."""
    require("pillow", "data.uri")
    size = config.image_size
    of_first = shape_of(content, name)
    shape = (size, size, 3) if size is not None else of_first
    model = describe(config.model)
    if model.smallest is None and size is None and shape != model.shape:
        raise DataError(
            f"trainer.model: {config.model} takes images of {size_text(model.shape)}, and {name} is "
            f"{size_text(shape)}; {REMEDY.format(model.shape[0])}"
        )
    # By default, images are mirrored only if they are scaled and not grey. None lets the decoder look for colours.
    by_default = None if size is not None else False
    flips = by_default if config.augment_flip is None else config.augment_flip == "true"
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


def _require_tests(config: Config, dataset: Dataset) -> None:
    values = {"evaluateEvery": config.evaluate_every, "augment.testResize": config.augment_test_resize}
    for name, value in values.items():
        if value and not dataset.tests:
            raise DataError(
                f"trainer.{name}: {value} needs test samples, but {config.data} has none in val/ or test/; put them "
                f"there, or remove trainer.{name}"
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
