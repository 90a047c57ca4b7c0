"""Read, write and delete the files of checkpoints. Each checkpoint is a folder; its manifest is written last."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from distrain_trainer.checkpoint.arrays import Arrays, Buffer, Field, Fields, Part, aligned, parse, shapes
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, NewerError, Subject, difference, type_difference
from distrain_trainer.errors import CheckpointError, MissingError, StorageError
from distrain_trainer.storage import Store

MANIFEST = "manifest.json"
# Only folders of such names are listed: others, for example a volume's lost+found, may not be readable.
NAME = r"\d+-\d+"
# The files of a checkpoint of any format, and the hidden unfinished files of FolderStore.
OURS = re.compile(r"(manifest\.json|state-\d+\.safetensors|state\.(npz|params|pt))|\.[\w.-]+\.part")
# Bytes per read from the store.
PIECE = 16 * 1024**2


class DamagedCheckpointError(Exception):
    """A checkpoint has no manifest, or does not match it."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint. Its arrays are in a Buffer."""

    name: str
    manifest: Manifest
    parts: Sequence[Part]


@dataclass(frozen=True)
class Trained:
    """What the run trains. `former` decodes the file of a checkpoint of format 1."""

    subject: Subject
    fields: Fields
    former: Callable[[bytes], Arrays]


# Called with a description of the next call to the store, for example "writing /checkpoints/1-10/manifest.json".
Tell = Callable[[str], object]


def name_of(generation: int, samples: int) -> str:
    return f"{generation}-{samples}"


def place(name: str) -> tuple[int, int]:
    """Return the generation and the samples in a checkpoint's name. Checkpoints are ordered by them."""
    generation, samples = name.split("-")
    return int(generation), int(samples)


def names(store: Store) -> list[str]:
    """Return the names of all checkpoints in the store, complete or not, newest first."""
    return _names_in(store.names(folders=NAME))


def _names_in(files: Iterable[str]) -> list[str]:
    folders = {file.partition("/")[0] for file in files if "/" in file}
    return sorted((name for name in folders if re.fullmatch(NAME, name)), key=place, reverse=True)


def last_there(store: Store) -> tuple[int, str | None]:
    """Return the generation and name of the newest checkpoint, or 0 and None if there is none.

    Only folders with a valid manifest count, as other programs' folders may have such names too.
    """
    for name in names(store):
        try:
            if _manifest(store, name):
                return place(name)[0], name
        except NewerError:  # `read` refuses it later.
            return place(name)[0], name
    return 0, None


def _manifest(store: Store, name: str) -> Manifest | None:
    """Return a checkpoint's manifest, or None if it is missing, damaged, or copied from a checkpoint of another name.

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
    """Return the files of a checkpoint's folder that may be deleted, the manifest first. Return none for other folders.

    A folder without a manifest counts as an incomplete checkpoint only if it holds no other files.
    """
    tell(f"reading {store.path(f'{name}/{MANIFEST}')}")
    there = [file for file in files if file.startswith(f"{name}/")]
    ours = [file for file in there if OURS.fullmatch(file.removeprefix(f"{name}/"))]
    held = store.read_tagged(f"{name}/{MANIFEST}")
    try:
        is_checkpoint = _manifest_in(held[0], name) if held else ours == there
    except NewerError:
        return []
    # The manifest first, so that a checkpoint that is deleted only partly counts as incomplete.
    return sorted(ours, key=lambda file: not file.endswith(MANIFEST)) if is_checkpoint else []


def _is_whole(store: Store, name: str) -> bool:
    # Read instead of listing, as a server's listing may lag behind.
    return store.read_tagged(f"{name}/{MANIFEST}") is not None


def require_none(difference: str | None, store: Store, name: str) -> None:
    """Raise CheckpointError if `difference`, between a checkpoint and what is trained, is not None."""
    if difference is not None:
        raise of_another(store, name, difference)


def of_another(store: Store, name: str, difference: str) -> CheckpointError:
    return CheckpointError(
        f"{store.value}: {store.path(name)} is of another training: {difference}; "
        f"correct that, set {store.value} to another place, or checkpoint.resume to never"
    )


def fields_of(parts: Sequence[Part]) -> dict[str, Field]:
    return {name: field for part in parts for name, field in part.fields.items()}


def write(store: Store, checkpoint: Checkpoint, buffer: Buffer, tell: Tell) -> None:
    """Write a checkpoint's parts, then its manifest. Raises StorageError if a file cannot be written."""
    for part in checkpoint.parts:
        path = f"{checkpoint.name}/{part.file}"
        tell(f"writing {store.path(path)}")
        store.write(path, buffer.span(part.start, part.end))
    tell(f"writing {store.path(f'{checkpoint.name}/{MANIFEST}')}")
    store.write(f"{checkpoint.name}/{MANIFEST}", checkpoint.manifest.to_json())


def read(store: Store, name: str, buffer: Buffer, trained: Trained) -> Checkpoint:
    """Read a checkpoint into the buffer.

    Raises DamagedCheckpointError if it is incomplete, damaged or not a checkpoint, NewerError if its format is unknown,
    CheckpointError if it is of another subject, StorageError if the store cannot be read.
    """
    held = store.read_tagged(f"{name}/{MANIFEST}")
    if held is None:
        raise DamagedCheckpointError(f"no {MANIFEST}")
    try:
        manifest = Manifest.from_json(held[0])
        subject = manifest.subject
        if manifest.format == 1:  # Format 1 numbers the arrays: their names are known only after decoding.
            subject = replace(subject, shapes=trained.subject.shapes)
        require_none(difference(subject, trained.subject), store, name)
        for file, told in manifest.files.items():
            _require_size(store, f"{name}/{file}", told.size)
        found = Checkpoint(name, manifest, [])
        if manifest.format == 1:
            found = _read_former(store, found, buffer, trained.former)
            require_none(difference(found.manifest.subject, trained.subject), store, name)
        else:
            found = _read_parts(store, found, buffer)
        require_none(type_difference(fields_of(found.parts), trained.fields), store, name)
        return found
    except NewerError:
        raise
    except ValueError as error:
        raise DamagedCheckpointError(str(error)) from None


def subject_of(store: Store, name: str) -> Subject | None:
    """Return a checkpoint's subject, or None if its manifest is missing, damaged or of an unknown format."""
    try:
        manifest = _manifest(store, name)
    except NewerError:
        return None
    return manifest.subject if manifest else None


def _read_parts(store: Store, found: Checkpoint, buffer: Buffer) -> Checkpoint:
    sizes = [told.size for told in found.manifest.files.values()]
    starts = list(accumulate((aligned(size) for size in sizes), initial=0))
    buffer.reserve(starts[-1])
    parts = []
    for (file, told), start in zip(found.manifest.files.items(), starts, strict=False):
        place = buffer.span(start, start + told.size)
        _read_file(store, f"{found.name}/{file}", told, place)
        parts.append(parse(file, start, place))
    return replace(found, parts=parts)


def _read_former(store: Store, found: Checkpoint, buffer: Buffer, former: Callable[[bytes], Arrays]) -> Checkpoint:
    """Read a checkpoint of format 1, and convert its arrays to the current format."""
    [(file, told)] = found.manifest.files.items()
    content = bytearray(told.size)
    _read_file(store, f"{found.name}/{file}", told, memoryview(content))
    parts = buffer.fill(former(bytes(content)))
    subject = replace(found.manifest.subject, shapes=shapes(fields_of(parts)))
    return Checkpoint(found.name, replace(found.manifest, subject=subject), parts)


def _require_size(store: Store, path: str, size: int) -> None:
    """Raise DamagedCheckpointError if the file has fewer than `size` bytes, or has any although `size` is 0.

    Called before memory is reserved for the file. _read_file finds files that are too long.
    """
    if size and _piece(store, path, size - 1, 1):
        return
    held = 0
    while piece := _piece(store, path, held, PIECE):
        held += len(piece)
    if held != size:
        raise DamagedCheckpointError(f"{path.rpartition('/')[2]}: {held} bytes instead of {size}")


def _read_file(store: Store, path: str, told: FileSum, place: memoryview) -> None:
    """Read a file piece by piece into `place`. Raises DamagedCheckpointError if its size or checksum is wrong."""
    digest, size, file = hashlib.sha256(), 0, path.rpartition("/")[2]
    # The last read starts at the expected end, and must return nothing.
    while piece := _piece(store, path, size, min(PIECE, max(1, told.size - size))):
        if size + len(piece) <= told.size:
            place[size : size + len(piece)] = piece
        size += len(piece)
        if size > told.size:
            raise DamagedCheckpointError(f"{file}: more than {told.size} bytes")
        digest.update(piece)
    if size != told.size:
        raise DamagedCheckpointError(f"{file}: {size} bytes instead of {told.size}")
    if digest.hexdigest() != told.sha256:
        raise DamagedCheckpointError(f"{file}: checksum differs")


def _piece(store: Store, path: str, start: int, length: int) -> bytes:
    try:
        return store.read(path, start=start, length=length)
    except MissingError:
        raise DamagedCheckpointError(f"{path.rpartition('/')[2]}: missing") from None


def newest_good(
    store: Store, buffer: Buffer, trained: Trained, *, newest: str, first_generation: int, say: Callable[[str], None]
) -> Checkpoint | None:
    """Read the newest complete checkpoint, searching backwards from HEAD's. Log one line for each one skipped.

    Return None if no checkpoint can be read. Raises CheckpointError if the checkpoint is of another subject, or if none
    can be read and at least one has an unknown format.
    """
    of_newer = None
    for name in _candidates(store, newest, first_generation):
        try:
            return read(store, name, buffer, trained)
        except (DamagedCheckpointError, NewerError) as error:
            say(f"checkpoint: {name} is damaged ({error}), skipped")
            if isinstance(error, NewerError):
                of_newer = of_newer or f"{store.value}: {store.path(name)} cannot be read: {error}"
    if of_newer:
        raise CheckpointError(
            f"{of_newer}; go on with the trainer that wrote it, or set checkpoint.resume to never to begin anew"
        )
    say(f"checkpoint: none of those in {store.uri} can be read; the training begins anew")
    return None


def _candidates(store: Store, newest: str, first_generation: int) -> Iterator[str]:
    yield newest
    for name in names(store):
        if place(name) < place(newest) and place(name)[0] >= first_generation:
            yield name


def prune(store: Store, *, keep: int, current: str, tell: Tell) -> None:
    """Delete old checkpoints. Keep `keep` complete ones: the current one and the newest before it.

    Checkpoints that cannot be deleted stay.
    """
    with contextlib.suppress(StorageError):
        files = _list(store, tell)
        names = [name for name in _names_in(files) if place(name) < place(current)]
        older = {name: _files_of(store, name, files, tell) for name in names}
        kept = [name for name in older if f"{name}/{MANIFEST}" in older[name]][: keep - 1]
        _delete(store, [file for name in older if name not in kept for file in older[name]], tell)


def delete_torn(store: Store, *, up_to: str, tell: Tell) -> None:
    """Delete incomplete checkpoints up to `up_to`, as on a full disk they take the space for the next one.

    Checkpoints that cannot be deleted stay.
    """
    with contextlib.suppress(StorageError, OSError):
        files = _list(store, tell)
        for name in _names_in(files):
            if place(name) <= place(up_to) and not _is_whole(store, name):
                _delete(store, _files_of(store, name, files, tell), tell)


def _list(store: Store, tell: Tell) -> list[str]:
    """List the files of checkpoints. Call `tell` for each file, so that a long listing does not look like a hang."""
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
