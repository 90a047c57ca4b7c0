"""Read checkpoints, and skip those that are torn: incomplete, or different from their manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from distrain_trainer.checkpoint.arrays import Arrays, Buffer, Fields, aligned, parse, shapes
from distrain_trainer.checkpoint.files import MANIFEST, Checkpoint, fields_of, names, of_another, place
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, NewerError, Subject, difference, state_difference
from distrain_trainer.errors import CheckpointError, MissingError
from distrain_trainer.storage import Store

# Bytes per read from the store.
PIECE = 16 * 1024**2


class DamagedCheckpointError(Exception):
    """A checkpoint has no manifest, or does not match it."""


@dataclass(frozen=True)
class Trained:
    """What the run trains, and its arrays: at the start, and those that the optimizer adds at its first step.

    `former` decodes the file of a checkpoint of format 1.
    """

    subject: Subject
    fields: Fields
    later: Fields
    former: Callable[[bytes], Arrays]


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
        _require_none(difference(subject, trained.subject), store, name)
        for file, told in manifest.files.items():
            _require_size(store, f"{name}/{file}", told.size)
        found = Checkpoint(name, manifest, [])
        if manifest.format == 1:
            found = _read_former(store, found, buffer, trained.former)
            _require_none(difference(found.manifest.subject, trained.subject), store, name)
        else:
            found = _read_parts(store, found, buffer)
        _require_none(state_difference(fields_of(found.parts), trained.fields, trained.later), store, name)
        return found
    except NewerError:
        raise
    except ValueError as error:
        raise DamagedCheckpointError(str(error)) from None


def _require_none(difference: str | None, store: Store, name: str) -> None:
    """Raise CheckpointError if `difference`, between a checkpoint and what is trained, is not None."""
    if difference is not None:
        raise of_another(store, name, difference)


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
