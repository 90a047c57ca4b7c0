"""The checkpoints of a run, each in a folder of its own: written file by file, and its manifest last."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from distrain_trainer.checkpoint.arrays import Arrays, Buffer, Part, aligned, parse, shapes
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, NewerError, Subject
from distrain_trainer.errors import CheckpointError, MissingError, StorageError
from distrain_trainer.storage import Store

MANIFEST = "manifest.json"
# What is read from the store at once.
PIECE = 16 * 1024**2


class DamagedError(Exception):
    """A checkpoint is not what its manifest says, or has none."""


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint, whose arrays lie in a buffer."""

    name: str
    manifest: Manifest
    parts: Sequence[Part]


# Makes arrays of the one file that a checkpoint of the first format has.
Former = Callable[[bytes], Arrays]


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


def write(store: Store, checkpoint: Checkpoint, buffer: Buffer) -> None:
    """Raises StorageError when it cannot be written."""
    for part in checkpoint.parts:
        store.write(f"{checkpoint.name}/{part.file}", buffer.span(part.start, part.end))
    store.write(f"{checkpoint.name}/{MANIFEST}", checkpoint.manifest.to_json())


def read(store: Store, name: str, buffer: Buffer, former: Former) -> Checkpoint:
    """Read a checkpoint into the buffer.

    Raises DamagedError when it is torn, damaged or none of ours, NewerError when a newer trainer may have written it,
    StorageError when the store cannot be read.
    """
    held = store.read_tagged(f"{name}/{MANIFEST}")
    if held is None:
        raise DamagedError(f"no {MANIFEST}")
    try:
        manifest = Manifest.from_json(held[0])
        for file, told in manifest.files.items():
            _require_size(store, f"{name}/{file}", told.size)
        read_parts = _read_former if manifest.format == 1 else _read_parts
        return read_parts(store, Checkpoint(name, manifest, []), buffer, former)
    except NewerError:
        raise
    except ValueError as error:
        raise DamagedError(str(error)) from None


def subject_of(store: Store, name: str) -> Subject | None:
    """Return what a checkpoint is of, None where its manifest does not say it."""
    held = store.read_tagged(f"{name}/{MANIFEST}")
    try:
        return Manifest.from_json(held[0]).subject if held else None
    except ValueError:
        return None


def _read_parts(store: Store, found: Checkpoint, buffer: Buffer, former: Former) -> Checkpoint:
    sizes = [told.size for told in found.manifest.files.values()]
    starts = list(accumulate((aligned(size) for size in sizes), initial=0))
    buffer.reserve(starts[-1])
    parts = []
    for (file, told), start in zip(found.manifest.files.items(), starts, strict=False):
        place = buffer.span(start, start + told.size)
        _read_file(store, f"{found.name}/{file}", told, place)
        parts.append(parse(file, start, place))
    return replace(found, parts=parts)


def _read_former(store: Store, found: Checkpoint, buffer: Buffer, former: Former) -> Checkpoint:
    """Read a checkpoint of the first format, and lay its arrays out as today's."""
    [(file, told)] = found.manifest.files.items()
    content = bytearray(told.size)
    _read_file(store, f"{found.name}/{file}", told, memoryview(content))
    parts = buffer.fill(former(bytes(content)))
    fields = {name: field for part in parts for name, field in part.fields.items()}
    subject = replace(found.manifest.subject, shapes=shapes(fields))
    return Checkpoint(found.name, replace(found.manifest, subject=subject), parts)


def _require_size(store: Store, path: str, size: int) -> None:
    """See that so many bytes are there, before memory is taken for them."""
    if size and _piece(store, path, size - 1, 1):
        return
    held = 0
    while piece := _piece(store, path, held, PIECE):
        held += len(piece)
    if held != size:
        raise DamagedError(f"{path.rpartition('/')[2]}: {held} bytes instead of {size}")


def _read_file(store: Store, path: str, told: FileSum, place: memoryview) -> None:
    """Read a file piece by piece to its place, and check it."""
    digest, size, file = hashlib.sha256(), 0, path.rpartition("/")[2]
    # The last piece is of what lies behind the end: nothing.
    while piece := _piece(store, path, size, min(PIECE, max(1, told.size - size))):
        if size + len(piece) <= told.size:
            place[size : size + len(piece)] = piece
        size += len(piece)
        if size > told.size:
            raise DamagedError(f"{file}: more than {told.size} bytes")
        digest.update(piece)
    if size != told.size:
        raise DamagedError(f"{file}: {size} bytes instead of {told.size}")
    if digest.hexdigest() != told.sha256:
        raise DamagedError(f"{file}: checksum differs")


def _piece(store: Store, path: str, start: int, length: int) -> bytes:
    try:
        return store.read(path, start=start, length=length)
    except MissingError:
        raise DamagedError(f"{path.rpartition('/')[2]}: missing") from None


def newest_good(
    store: Store, buffer: Buffer, former: Former, *, newest: str, first_generation: int, say: Callable[[str], None]
) -> Checkpoint | None:
    """Read the newest whole checkpoint, searching backwards from the one in HEAD. Say a line for each one skipped.

    Raises CheckpointError when there is none that this trainer reads, but one that another trainer may.
    """
    of_newer = None
    for name in _candidates(store, newest, first_generation):
        try:
            return read(store, name, buffer, former)
        except (DamagedError, NewerError) as error:
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
