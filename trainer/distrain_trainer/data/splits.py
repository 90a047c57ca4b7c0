"""Detect the format of a data set from the names of its files, and find its training and test data."""

from __future__ import annotations

from collections.abc import Sequence

from distrain_trainer.data import idx
from distrain_trainer.data.images import is_image
from distrain_trainer.errors import DataError
from distrain_trainer.storage import Store

TRAIN, TESTS = "train/", ("val/", "test/")
# Usual names for the folders of training and test data, in other layouts than distrain's.
PARTS = {"train", "training", "val", "valid", "validation", "test", "testing"}
IMAGES, SHARDS = "one folder of .jpg or .png images per class", ".tar shards"
EXPECTED = f"MNIST-format idx .gz files, {IMAGES}, or {SHARDS} (images and shards may also be in train/ and val/)"


def format_of(names: Sequence[str], folder: str) -> str | None:
    """Return the format of the files below `folder` ("images" or "shards"), or None if unknown."""
    inside = _names_in(names, folder)
    if any(name.endswith(".tar") and "/" not in name for name in inside):
        return "shards"
    return "images" if any("/" in name and is_image(name) for name in inside) else None


def _require_one_format(place: str, inside: Sequence[str]) -> None:
    """Raise DataError if a folder contains both shards and the images of classes. Only the shards would be read."""
    tar = next((name for name in inside if name.endswith(".tar") and "/" not in name), None)
    image = next((name for name in inside if "/" in name and is_image(name)), None)
    if tar and image:
        raise DataError(
            f"data.uri: {place} holds the shard {tar} and the image {image}; move one of the two kinds to another place"
        )


def _require_classes(place: str, inside: Sequence[str]) -> None:
    """Raise DataError if the folders seem to contain the folders of classes, and to be no classes themselves."""
    images = [name for name in inside if "/" in name and is_image(name)]
    folders = {name.partition("/")[0] for name in images}
    if folders and (len(folders) == 1 or folders <= PARTS) and all(name.count("/") > 1 for name in images):
        raise DataError(
            f"data.uri: {place} holds images only in deeper folders, such as {images[0]}; name the folder that holds "
            "train/ and val/, or else one folder per class"
        )


def find_data(store: Store, names: Sequence[str]) -> tuple[str, str, str | None]:
    """Return the format ("idx", "images" or "shards"), the folder of the training data, and that of the test data.

    These folders are train/, and either val/ or test/. Without train/, return "" (all files) and None. Raises DataError
    if the format is unknown, or if the two folders have different formats.
    """
    if not {*idx.TRAIN_FILES, *idx.TEST_FILES}.isdisjoint(names):
        return "idx", "", None
    train, test = _folders_of(names)
    found = format_of(names, train)
    if found is None:
        place = store.path(train) if train else store.uri
        raise DataError(f"data.uri: {place} holds {_inside(names, train)}; correct data.uri, or put there {EXPECTED}")
    if test is not None and format_of(names, test) != found:
        form = SHARDS if found == "shards" else IMAGES
        raise DataError(
            f"data.uri: {store.path(test)} holds {_inside(names, test)}, but {store.path(train)} holds {form}; "
            f"give both folders the same form, or remove {store.path(test)}"
        )
    for folder in (train, *(() if test is None else (test,))):
        place, inside = store.path(folder) if folder else store.uri, _names_in(names, folder)
        _require_one_format(place, inside)
        _require_classes(place, inside)
    return found, train, test


def _folders_of(names: Sequence[str]) -> tuple[str, str | None]:
    """Return the folders of training and test data.

    If train/ directly contains images and there is no folder of test data, train/ is a class named train.
    """
    has = {folder for folder in (TRAIN, *TESTS) if any(name.startswith(folder) for name in names)}
    test = next((folder for folder in TESTS if folder in has), None)
    if TRAIN in has and (test is not None or format_of(names, TRAIN) is not None):
        return TRAIN, test
    return "", None


def _inside(names: Sequence[str], folder: str) -> str:
    return some(_names_in(names, folder))


def _names_in(names: Sequence[str], folder: str) -> list[str]:
    return [name[len(folder) :] for name in names if name.startswith(folder)]


def some(names: Sequence[str]) -> str:
    """Return the first names, for messages."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing"
