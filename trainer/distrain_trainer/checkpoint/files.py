"""List, write and delete the files of checkpoints. Each checkpoint is a folder. Its manifest is written last."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.layout import Part
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, NewerError, Subject
from distrain_trainer.errors import CheckpointError, StorageError
from distrain_trainer.storage import Store

MANIFEST = "manifest.json"
# List only folders with such names: the trainer may have no permission to read other folders, such as a volume's
# lost+found.
NAME = r"\d+-\d+"
# Names of files in a checkpoint's folder: those of every checkpoint format, the ranks' reports, and the hidden
# unfinished files of FolderStore.
OURS = re.compile(r"(manifest\.json|rank-\d+\.json|state-\d+\.safetensors|state\.(npz|params|pt))|\.[\w.-]+\.part")


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint, and the offsets of its arrays in a Buffer."""

    name: str
    manifest: Manifest
    parts: Sequence[Part]


# A function that receives a description of what the store does next, for example "writing
# /checkpoints/1-10/manifest.json".
Tell = Callable[[str], object]


def name_of(generation: int, samples: int) -> str:
    return f"{generation}-{samples}"


def place(name: str) -> tuple[int, int]:
    """Return the two numbers in a checkpoint's name: the generation and the number of samples.

    Checkpoints are ordered by generation, then by samples.
    """
    generation, samples = name.split("-")
    return int(generation), int(samples)


def names(store: Store) -> list[str]:
    """Return the names of all checkpoints in the store, complete or not, newest first."""
    return _names_in(store.names(folders=NAME))


def _names_in(files: Iterable[str]) -> list[str]:
    folders = {file.partition("/")[0] for file in files if "/" in file}
    return sorted((name for name in folders if re.fullmatch(NAME, name)), key=place, reverse=True)


def last_there(store: Store) -> tuple[int, str | None]:
    """Return the generation and the name of the newest checkpoint, or 0 and None if the store contains no checkpoint.

    Only folders with a valid manifest count, because another program's folder may have a name of the same form.
    """
    for name in names(store):
        try:
            if _manifest(store, name):
                return place(name)[0], name
        except NewerError:  # The checkpoint's format is newer; `read` raises an error for it.
            return place(name)[0], name
    return 0, None


def _manifest(store: Store, name: str) -> Manifest | None:
    """Return a checkpoint's manifest, or None if it is missing or damaged.

    A manifest counts as damaged if its number of samples is not the one in the checkpoint's name.

    Raises NewerError and StorageError.
    """
    held = store.read_tagged(f"{name}/{MANIFEST}")
    return _manifest_in(held[0], name) if held else None


def _manifest_in(content: bytes, name: str) -> Manifest | None:
    try:
        manifest = Manifest.from_json(content)
    except NewerError:
        raise
    except ValueError:
        return None
    return manifest if manifest.position.samples == place(name)[1] else None


def _files_of(store: Store, name: str, files: Iterable[str], tell: Tell) -> list[str]:
    """Return the files that the trainer may delete from a checkpoint's folder, with the manifest first.

    If the folder is not a checkpoint, return no files. A folder without a manifest is an incomplete checkpoint only if
    each of its files has the name of a checkpoint's file.
    """
    tell(f"reading {store.path(f'{name}/{MANIFEST}')}")
    there = [file for file in files if file.startswith(f"{name}/")]
    ours = [file for file in there if OURS.fullmatch(file.removeprefix(f"{name}/"))]
    held = store.read_tagged(f"{name}/{MANIFEST}")
    try:
        is_checkpoint = _manifest_in(held[0], name) if held else ours == there
    except NewerError:
        return []
    # Delete the manifest first: if not all files get deleted, the checkpoint then counts as incomplete.
    return sorted(ours, key=lambda file: not file.endswith(MANIFEST)) if is_checkpoint else []


def _is_whole(store: Store, name: str) -> bool:
    # Read the manifest instead of listing the files, because a server's listing may be out of date.
    return store.read_tagged(f"{name}/{MANIFEST}") is not None


def of_another(store: Store, name: str, difference: str) -> CheckpointError:
    return CheckpointError(
        f"{store.value}: {store.path(name)} does not fit this run: {difference}; "
        f"correct that, set {store.value} to another place, or checkpoint.resume to never"
    )


def write(store: Store, name: str, parts: Sequence[Part], buffer: Buffer, tell: Tell) -> dict[str, FileSum]:
    """Write this rank's files of a checkpoint. Return the sizes and checksums of the files.

    Raises StorageError if a file cannot be written.
    """
    sums = {}
    for part in parts:
        path, content = f"{name}/{part.file}", buffer.span(part.start, part.end)
        sums[part.file] = FileSum.of(content)
        tell(f"writing {store.path(path)}")
        store.write(path, content)
    return sums


def complete(store: Store, name: str, manifest: Manifest, tell: Tell) -> None:
    """Write a checkpoint's manifest, after all ranks have written their files."""
    tell(f"writing {store.path(f'{name}/{MANIFEST}')}")
    store.write(f"{name}/{MANIFEST}", manifest.to_json())


def subject_of(store: Store, name: str) -> Subject | None:
    """Return what a checkpoint's run trains (its Subject), or None if the manifest is missing, damaged or of an unknown
    format.
    """
    try:
        manifest = _manifest(store, name)
    except NewerError:
        return None
    return manifest.subject if manifest else None


def prune(store: Store, *, keep: int, current: str, tell: Tell) -> None:
    """Delete old checkpoints. Keep the newest `keep` complete checkpoints, including the current one.

    If the store refuses to delete a checkpoint, the checkpoint stays.
    """
    with contextlib.suppress(StorageError):
        files = _list(store, tell)
        names = [name for name in _names_in(files) if place(name) < place(current)]
        older = {name: _files_of(store, name, files, tell) for name in names}
        kept = [name for name in older if f"{name}/{MANIFEST}" in older[name]][: keep - 1]
        _delete(store, [file for name in older if name not in kept for file in older[name]], tell)


def delete_torn(store: Store, *, before: str, tell: Tell) -> None:
    """Delete incomplete checkpoints that are older than the checkpoint `before`.

    On a full disk, these files would take the space of the next checkpoint. If the store refuses to delete a
    checkpoint, the checkpoint stays.
    """
    with contextlib.suppress(StorageError, OSError):
        files = _list(store, tell)
        for name in _names_in(files):
            if place(name) < place(before) and not _is_whole(store, name):
                _delete(store, _files_of(store, name, files, tell), tell)


def delete_own(store: Store, name: str, parts: Sequence[Part], tell: Tell) -> None:
    """Delete this rank's own files of an incomplete checkpoint.

    The files of the other ranks stay, because those ranks would not write these files again. If the store refuses to
    delete a file, the file stays.
    """
    with contextlib.suppress(StorageError, OSError):
        if not _is_whole(store, name):
            _delete(store, [f"{name}/{part.file}" for part in parts], tell)


def _list(store: Store, tell: Tell) -> list[str]:
    """List the files of all checkpoints.

    Call `tell` for each file, so that a long listing does not look like a call that hangs.
    """
    tell(f"listing {store.uri}")
    files = []
    for file in store.names(folders=NAME):
        tell(f"listing {store.uri}")
        files.append(file)
    return files


def _delete(store: Store, files: Iterable[str], tell: Tell) -> None:
    for file in files:
        tell(f"deleting {store.path(file)}")
        store.delete(file)
