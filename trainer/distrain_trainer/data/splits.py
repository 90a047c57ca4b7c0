"""Detect the format of a data set from the names of its files, and find its training and test data."""

from __future__ import annotations

from collections.abc import Sequence

from distrain_trainer.data import idx
from distrain_trainer.data.images import is_image
from distrain_trainer.errors import DataError
from distrain_trainer.storage import Store

TRAIN, TESTS = "train/", ("val/", "test/")
IMAGES, SHARDS = "one folder of .jpg or .png images per class", ".tar shards"
EXPECTED = f"MNIST-format idx .gz files, {IMAGES}, or {SHARDS} (images and shards may also be in train/ and val/)"


def format_of(names: Sequence[str], folder: str) -> str | None:
    """Return the format of the files below `folder` ("images" or "shards"), or None if unknown."""
    inside = [name[len(folder) :] for name in names if name.startswith(folder)]
    if any(name.endswith(".tar") and "/" not in name for name in inside):
        return "shards"
    return "images" if any("/" in name and is_image(name) for name in inside) else None


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
    return some([name[len(folder) :] for name in names if name.startswith(folder)])


def some(names: Sequence[str]) -> str:
    """Return the first names, for messages."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing"
