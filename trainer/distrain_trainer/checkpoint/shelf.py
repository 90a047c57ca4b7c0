"""The checkpoints of a run, each in a folder of its own: written file by file, and its manifest last."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from distrain_trainer.checkpoint.manifest import FileSum, Manifest
from distrain_trainer.errors import StorageError
from distrain_trainer.storage import Store

MANIFEST = "manifest.json"


class DamagedError(Exception):
    """A checkpoint is not what its manifest says, or has none."""


@dataclass(frozen=True)
class Checkpoint:
    name: str
    manifest: Manifest
    files: dict[str, bytes]


def name_of(generation: int, samples: int) -> str:
    return f"{generation}-{samples}"


def place(name: str) -> tuple[int, int]:
    """Return the generation and samples of a checkpoint's name, by which they are ordered."""
    generation, samples = name.split("-")
    return int(generation), int(samples)


def names(store: Store) -> list[str]:
    """Return the checkpoints that are there, whole or not, the newest first."""
    folders = {name.partition("/")[0] for name in store.names() if "/" in name}
    return sorted((name for name in folders if re.fullmatch(r"\d+-\d+", name)), key=place, reverse=True)


def write(store: Store, checkpoint: Checkpoint) -> None:
    """Raises StorageError when it cannot be written."""
    for file, content in checkpoint.files.items():
        store.write(f"{checkpoint.name}/{file}", content)
    store.write(f"{checkpoint.name}/{MANIFEST}", checkpoint.manifest.to_json())


def read(store: Store, name: str) -> Checkpoint:
    """Raises DamagedError when it is torn, damaged or none of ours, StorageError when the store cannot be read."""
    held = store.read_tagged(f"{name}/{MANIFEST}")
    if held is None:
        raise DamagedError(f"no {MANIFEST}")
    try:
        manifest = Manifest.from_json(held[0])
    except ValueError as error:
        raise DamagedError(str(error)) from None
    return Checkpoint(name, manifest, {file: _file(store, name, file, told) for file, told in manifest.files.items()})


def _file(store: Store, name: str, file: str, told: FileSum) -> bytes:
    held = store.read_tagged(f"{name}/{file}")
    if held is None:
        raise DamagedError(f"{file}: missing")
    found = FileSum.of(held[0])
    if found.size != told.size:
        raise DamagedError(f"{file}: {found.size} bytes instead of {told.size}")
    if found.sha256 != told.sha256:
        raise DamagedError(f"{file}: checksum differs")
    return held[0]


def newest_good(store: Store, *, newest: str, first_generation: int, say: Callable[[str], None]) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, from the one that HEAD names on; each other is told in a line."""
    for name in _candidates(store, newest, first_generation):
        try:
            return read(store, name)
        except DamagedError as error:
            say(f"checkpoint: {name} is damaged ({error}), skipped")
    return None


def _candidates(store: Store, newest: str, first_generation: int) -> Iterator[str]:
    yield newest
    for name in names(store):
        if place(name) < place(newest) and place(name)[0] >= first_generation:
            yield name


def prune(store: Store, *, keep: int, current: str) -> None:
    """Delete all but the current one and the whole ones before it, `keep` in all. What cannot be deleted stays."""
    with contextlib.suppress(StorageError):
        files = list(store.names())
        older = [name for name in names(store) if place(name) < place(current)]
        kept = [name for name in older if f"{name}/{MANIFEST}" in files][: keep - 1]
        for name in older:
            # The manifest first: what is left of it is seen to be damaged.
            for file in sorted(files, key=lambda file: not file.endswith(MANIFEST)):
                if name not in kept and file.startswith(f"{name}/"):
                    store.delete(file)
