"""The files of a run's checkpoints: one folder each, in which the manifest is written last."""

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
# Only these folders are listed: others, such as a volume's lost+found, may not be readable.
NAME = r"\d+-\d+"
# A file of a checkpoint, today's or of the first format; a folder's unfinished ones are hidden.
OURS = re.compile(r"(manifest\.json|state-\d+\.safetensors|state\.(npz|params|pt))|\.[\w.-]+\.part")
# Bytes per read from the store.
PIECE = 16 * 1024**2


class DamagedError(Exception):
    """A checkpoint is not what its manifest says, or has none."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint. Its arrays lie in a Buffer."""

    name: str
    manifest: Manifest
    parts: Sequence[Part]


@dataclass(frozen=True)
class Trained:
    """What the run trains. `former` decodes the one file that a checkpoint of the first format has."""

    subject: Subject
    fields: Fields
    former: Callable[[bytes], Arrays]


# Called with what the store is about to do, such as "writing /checkpoints/1-10/manifest.json".
Tell = Callable[[str], object]


def name_of(generation: int, samples: int) -> str:
    return f"{generation}-{samples}"


def place(name: str) -> tuple[int, int]:
    """Return the generation and samples of a checkpoint's name, by which they are ordered."""
    generation, samples = name.split("-")
    return int(generation), int(samples)


def names(store: Store) -> list[str]:
    """Return the checkpoints that are there, whole or not, the newest first."""
    return _names_in(store.names(folders=NAME))


def _names_in(files: Iterable[str]) -> list[str]:
    folders = {file.partition("/")[0] for file in files if "/" in file}
    return sorted((name for name in folders if re.fullmatch(NAME, name)), key=place, reverse=True)


def last_there(store: Store) -> tuple[int, str | None]:
    """Return the generation and the name of the newest checkpoint, 0 and None without one.

    Other programs' folders may have such names as well: a folder counts by its manifest.
    """
    for name in names(store):
        try:
            if _manifest(store, name):
                return place(name)[0], name
        except NewerError:  # It is refused when it is read.
            return place(name)[0], name
    return 0, None


def _manifest(store: Store, name: str) -> Manifest | None:
    """Return a checkpoint's manifest; None for a folder without one, and for a copy of a checkpoint in another folder.

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
    """Return the files that this trainer has written to a folder, the manifest first; none of another program's folder.

    Without a manifest the folder is a torn checkpoint's only if it holds nothing else.
    """
    tell(f"reading {store.path(f'{name}/{MANIFEST}')}")
    there = [file for file in files if file.startswith(f"{name}/")]
    ours = [file for file in there if OURS.fullmatch(file.removeprefix(f"{name}/"))]
    held = store.read_tagged(f"{name}/{MANIFEST}")
    try:
        is_checkpoint = _manifest_in(held[0], name) if held else ours == there
    except NewerError:
        return []
    # The manifest first: what is left of the checkpoint is seen to be damaged.
    return sorted(ours, key=lambda file: not file.endswith(MANIFEST)) if is_checkpoint else []


def _is_whole(store: Store, name: str) -> bool:
    # Read instead of listing: a server may list a new file late.
    return store.read_tagged(f"{name}/{MANIFEST}") is not None


def require_none(difference: str | None, store: Store, name: str) -> None:
    """Raise CheckpointError where a checkpoint differs from what is trained."""
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
    """Raises StorageError when it cannot be written."""
    for part in checkpoint.parts:
        path = f"{checkpoint.name}/{part.file}"
        tell(f"writing {store.path(path)}")
        store.write(path, buffer.span(part.start, part.end))
    tell(f"writing {store.path(f'{checkpoint.name}/{MANIFEST}')}")
    store.write(f"{checkpoint.name}/{MANIFEST}", checkpoint.manifest.to_json())


def read(store: Store, name: str, buffer: Buffer, trained: Trained) -> Checkpoint:
    """Read a checkpoint of what is trained into the buffer.

    Raises DamagedError when it is torn, damaged or none of ours, NewerError when a newer trainer may have written it,
    CheckpointError when it is of another training, StorageError when the store cannot be read.
    """
    held = store.read_tagged(f"{name}/{MANIFEST}")
    if held is None:
        raise DamagedError(f"no {MANIFEST}")
    try:
        manifest = Manifest.from_json(held[0])
        subject = manifest.subject
        if manifest.format == 1:  # It counts the arrays: their shapes have today's names once they are decoded.
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
        raise DamagedError(str(error)) from None


def subject_of(store: Store, name: str) -> Subject | None:
    """Return a checkpoint's Subject, or None if its manifest cannot be read."""
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
    """Read a checkpoint of the first format, and lay its arrays out in the current one."""
    [(file, told)] = found.manifest.files.items()
    content = bytearray(told.size)
    _read_file(store, f"{found.name}/{file}", told, memoryview(content))
    parts = buffer.fill(former(bytes(content)))
    subject = replace(found.manifest.subject, shapes=shapes(fields_of(parts)))
    return Checkpoint(found.name, replace(found.manifest, subject=subject), parts)


def _require_size(store: Store, path: str, size: int) -> None:
    """Raise DamagedError unless the file has `size` bytes. Called before memory is reserved for them."""
    if size and _piece(store, path, size - 1, 1):
        return
    held = 0
    while piece := _piece(store, path, held, PIECE):
        held += len(piece)
    if held != size:
        raise DamagedError(f"{path.rpartition('/')[2]}: {held} bytes instead of {size}")


def _read_file(store: Store, path: str, told: FileSum, place: memoryview) -> None:
    """Read a file piece by piece into the buffer, and check its size and checksum."""
    digest, size, file = hashlib.sha256(), 0, path.rpartition("/")[2]
    # The last read is beyond the expected end, and must return nothing.
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
    store: Store, buffer: Buffer, trained: Trained, *, newest: str, first_generation: int, say: Callable[[str], None]
) -> Checkpoint | None:
    """Read the newest whole checkpoint, searching backwards from the one in HEAD. Say a line for each one skipped.

    Raises CheckpointError when it is of another training, and when there is none that this trainer reads, but one that
    another trainer may.
    """
    of_newer = None
    for name in _candidates(store, newest, first_generation):
        try:
            return read(store, name, buffer, trained)
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


def prune(store: Store, *, keep: int, current: str, tell: Tell) -> None:
    """Delete all but the current one and the whole ones before it, `keep` in all. What cannot be deleted stays."""
    with contextlib.suppress(StorageError):
        files = _list(store, tell)
        names = [name for name in _names_in(files) if place(name) < place(current)]
        older = {name: _files_of(store, name, files, tell) for name in names}
        kept = [name for name in older if f"{name}/{MANIFEST}" in older[name]][: keep - 1]
        _delete(store, [file for name in older if name not in kept for file in older[name]], tell)


def delete_torn(store: Store, *, up_to: str, tell: Tell) -> None:
    """Delete the checkpoints without a manifest up to this one: on a full disk they take the place of the next one.

    What cannot be deleted stays.
    """
    with contextlib.suppress(StorageError, OSError):
        files = _list(store, tell)
        for name in _names_in(files):
            if place(name) <= place(up_to) and not _is_whole(store, name):
                _delete(store, _files_of(store, name, files, tell), tell)


def _list(store: Store, tell: Tell) -> list[str]:
    """List the files of checkpoints. Report each file to `tell`, as a long listing is no hang."""
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
