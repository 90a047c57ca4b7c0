"""Detect the format of a data set from the names of its files, and find its training and test data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distrain_trainer.data import idx
from distrain_trainer.data.images import is_image
from distrain_trainer.errors import DataError
from distrain_trainer.storage import Store

TRAIN, TESTS = "train/", ("val/", "test/")
# Usual names for the folders of training and test data, in other layouts than distrain's.
SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing"}
IMAGES, SHARDS = "one folder of .jpg or .png images per class", ".tar shards"
EXPECTED = f"MNIST-format idx .gz files, {IMAGES}, or {SHARDS} (images and shards may also be in train/ and val/)"


@dataclass(frozen=True)
class _Folder:
    """A folder of a data set.

    `names` are the names of the files below it, relative to `path`. `shard` is the first shard directly in the folder,
    `image` the first image in the folder of a class; None if there is none.
    """

    path: str
    names: Sequence[str]
    shard: str | None
    image: str | None

    @classmethod
    def of(cls, store: Store, names: Sequence[str], folder: str) -> _Folder:
        """Describe a folder of the store; "" is the store itself. `names` are the names of all files in the store."""
        inside = [name[len(folder) :] for name in names if name.startswith(folder)]
        return cls(
            store.path(folder) if folder else store.uri,
            inside,
            next((name for name in inside if name.endswith(".tar") and "/" not in name), None),
            next((name for name in inside if "/" in name and is_image(name)), None),
        )

    @property
    def format(self) -> str | None:
        """Return "images", "shards", or None if the format is unknown."""
        return "shards" if self.shard else "images" if self.image else None

    def require_one_format(self) -> None:
        """Raise DataError if there are both shards and the images of classes. Only the shards would be read."""
        if self.shard and self.image:
            raise DataError(
                f"data.uri: {self.path} holds the shard {self.shard} and the image {self.image}; move one of the two "
                "kinds to another place"
            )

    def require_classes(self) -> None:
        """Raise DataError if the folders here seem to contain the folders of classes, and to be no classes themselves.

        If the first image is directly in the folder of a class, there is no need to look at the others.
        """
        if self.image is None or self.image.count("/") == 1:
            return
        images = [name for name in self.names if "/" in name and is_image(name)]
        folders = {name.partition("/")[0] for name in images}
        if (len(folders) == 1 or folders <= SPLITS) and all(name.count("/") > 1 for name in images):
            raise DataError(
                f"data.uri: {self.path} holds images only in deeper folders, such as {self.image}; name the folder "
                "that holds train/ and val/, or else one folder per class"
            )


def find_data(store: Store, names: Sequence[str]) -> tuple[str, str, str | None]:
    """Return the format ("idx", "images" or "shards"), the folder of the training data, and that of the test data.

    These folders are train/, and either val/ or test/. Without train/, return "" (all files) and None. Raises DataError
    if the format is unknown, or if the two folders have different formats.
    """
    if not {*idx.TRAIN_FILES, *idx.TEST_FILES}.isdisjoint(names):
        return "idx", "", None
    train, test = _folders_of(store, names)
    folders = [_Folder.of(store, names, folder) for folder in (train, test) if folder is not None]
    first, last, found = folders[0], folders[-1], folders[0].format
    if found is None:
        raise DataError(f"data.uri: {first.path} holds {some(first.names)}; correct data.uri, or put there {EXPECTED}")
    if last.format != found:
        form = SHARDS if found == "shards" else IMAGES
        raise DataError(
            f"data.uri: {last.path} holds {some(last.names)}, but {first.path} holds {form}; "
            f"give both folders the same form, or remove {last.path}"
        )
    for folder in folders:
        folder.require_one_format()
        folder.require_classes()
    return found, train, test


def _folders_of(store: Store, names: Sequence[str]) -> tuple[str, str | None]:
    """Return the folders of training and test data.

    If train/ directly contains images and there is no folder of test data, train/ is a class named train.
    """
    has = {folder for folder in (TRAIN, *TESTS) if any(name.startswith(folder) for name in names)}
    test = next((folder for folder in TESTS if folder in has), None)
    if TRAIN in has and (test is not None or _Folder.of(store, names, TRAIN).format):
        return TRAIN, test
    return "", None


def some(names: Sequence[str]) -> str:
    """Return the first names, for messages."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "nothing"
