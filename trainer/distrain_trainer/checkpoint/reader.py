"""Read checkpoints, and skip torn ones: those that are incomplete or do not match their manifest.

If the ranks read a checkpoint together, each rank reads only its share of the files. A rank reads several files at the
same time, and computes one file's checksum while it reads other files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from distrain_trainer.checkpoint.arrays import Arrays, Fields, shapes
from distrain_trainer.checkpoint.buffer import Buffer
from distrain_trainer.checkpoint.files import MANIFEST, Checkpoint, names, of_another, place
from distrain_trainer.checkpoint.layout import Part, fields_of, header_size, lay_out, parse
from distrain_trainer.checkpoint.manifest import FileSum, Manifest, NewerError, Subject, difference, state_difference
from distrain_trainer.errors import CheckpointError, MissingError
from distrain_trainer.storage import Store

# Bytes per read from the store, and the number of concurrent reads. boto3 uses the same numbers for large files.
PIECE = 8 * 1024**2
READS = 10
# The number of bytes to read first from each file, to get its header. Most headers are shorter.
FIRST_BYTES = 64 * 1024


class DamagedCheckpointError(Exception):
    """A checkpoint has no manifest, or its files do not match the manifest."""


@dataclass(frozen=True)
class Trained:
    """What this run trains, and the arrays of its state. A run can resume only from a checkpoint that matches both.

    `fields` are the arrays at the start of the run, and `later` are the arrays that the optimizer adds at its first
    step.

    `former` decodes the single file of a checkpoint of format 1.
    """

    subject: Subject
    fields: Fields
    later: Fields
    former: Callable[[bytes], Arrays]


# A function that reads the files of a checkpoint into the buffer. Each Part says where its file belongs. Raises
# DamagedCheckpointError.
ReadFiles = Callable[[Checkpoint], None]


def newest_good(
    store: Store,
    buffer: Buffer,
    trained: Trained,
    *,
    newest: str,
    first_generation: int,
    say: Callable[[str], None],
    read_files: ReadFiles,
) -> Checkpoint | None:
    """Read the newest complete checkpoint, searching backwards from `newest`. Log one line per skipped checkpoint.

    Return None if no checkpoint can be read. Raises CheckpointError if the checkpoint does not fit the run, for example
    because the model is another one. Also raises CheckpointError if no checkpoint can be read and at least one has an
    unknown format.
    """
    of_newer = None
    for name in _candidates(store, newest, first_generation):
        try:
            return read(store, name, buffer, trained, read_files)
        except (DamagedCheckpointError, NewerError) as error:
            say(f"checkpoint: {name} is damaged ({error}), skipped")
            if isinstance(error, NewerError):
                of_newer = of_newer or f"{store.value}: {store.path(name)} cannot be read: {error}"
    if of_newer:
        raise CheckpointError(
            f"{of_newer}; continue with the trainer that wrote it, or train from the start with checkpoint.resume=never"
        )
    say(f"checkpoint: no checkpoint in {store.uri} can be read; the training begins anew")
    return None


def _candidates(store: Store, newest: str, first_generation: int) -> Iterator[str]:
    yield newest
    for name in names(store):
        if place(name) < place(newest) and place(name)[0] >= first_generation:
            yield name


def read(store: Store, name: str, buffer: Buffer, trained: Trained, read_files: ReadFiles) -> Checkpoint:
    """Read a checkpoint into the buffer. `read_files` reads the files of the checkpoint; it is not called for format 1.

    Raises DamagedCheckpointError if the checkpoint is incomplete, damaged or not a checkpoint, NewerError if its format
    is unknown, CheckpointError if it does not fit the run, and StorageError if the store cannot be read.
    """
    held = store.read_tagged(f"{name}/{MANIFEST}")
    if held is None:
        raise DamagedCheckpointError(f"no {MANIFEST}")
    try:
        manifest = Manifest.from_json(held[0])
        if manifest.position.samples != place(name)[1]:
            raise DamagedCheckpointError(f"{MANIFEST} says {manifest.position.samples} samples")
        subject = manifest.subject
        if manifest.format == 1:  # Format 1 numbers the arrays, so their names are known only after decoding.
            subject = replace(subject, shapes=trained.subject.shapes)
        _require_none(difference(subject, trained.subject), store, name)
        found = Checkpoint(name, manifest, [])
        if manifest.format == 1:
            found = _read_former(store, found, buffer, trained.former)
            _require_none(difference(found.manifest.subject, trained.subject), store, name)
        else:
            found = replace(found, parts=_layout_of(store, found))
            read_files(found)
        # Compare the arrays only after the checksums are verified, because a damaged header may contain wrong names.
        _require_none(state_difference(fields_of(found.parts), trained.fields, trained.later), store, name)
        return found
    except NewerError:
        raise
    except ValueError as error:
        raise DamagedCheckpointError(str(error)) from None


def _require_none(difference: str | None, store: Store, name: str) -> None:
    """Raise CheckpointError unless `difference` is None.

    `difference` describes why the checkpoint does not fit the run.
    """
    if difference is not None:
        raise of_another(store, name, difference)


def _layout_of(store: Store, found: Checkpoint) -> list[Part]:
    """Read the headers of a checkpoint's files, and compute from them the offset of each array in a buffer.

    Raises DamagedCheckpointError or ValueError if a file is damaged, for example too short.
    """

    def part_of(item: tuple[str, FileSum]) -> Part:
        file, told = item
        return parse(file, _header_of(store, f"{found.name}/{file}", told.size), told.size)

    with ThreadPoolExecutor(READS) as readers:
        return lay_out(readers.map(part_of, found.manifest.files.items()))


def _header_of(store: Store, path: str, size: int) -> bytes:
    """Read a file's header. Raises DamagedCheckpointError unless the file's size is `size` bytes."""
    content = bytearray(min(FIRST_BYTES, size + 1))
    _read_into(store, path, memoryview(content), 0, size)
    length = header_size(content)
    if len(content) < length <= size:
        content = bytearray(length)
        _read_into(store, path, memoryview(content), 0, size)
    return bytes(content[:length])


def shares(parts: Sequence[Part], ranks: int) -> list[list[Part]]:
    """Divide the files among the ranks, in order, such that every rank reads about the same number of bytes."""
    total = sum(part.size for part in parts)
    found: list[list[Part]] = [[] for _ in range(ranks)]
    before = 0
    for part in parts:
        middle = before + part.size / 2
        found[min(ranks - 1, int(middle * ranks / total))].append(part)
        before += part.size
    return found


def read_files(store: Store, found: Checkpoint, parts: Sequence[Part], buffer: Buffer) -> None:
    """Read some files of a checkpoint into the buffer. The buffer has room for all files of the checkpoint.

    Raises DamagedCheckpointError if a file's size or checksum is wrong.
    """
    buffer.reserve(max(part.end for part in found.parts), touches=False)
    readers, checkers = ThreadPoolExecutor(READS), ThreadPoolExecutor(READS)
    try:
        begun = [(part, _begin(readers, store, f"{found.name}/{part.file}", part, buffer)) for part in parts]
        sums = {file: told.sha256 for file, told in found.manifest.files.items()}
        checks = [checkers.submit(_require_sum, part, reads, sums[part.file]) for part, reads in begun]
        for check in checks:
            check.result()
    finally:
        for executor in (readers, checkers):
            executor.shutdown(cancel_futures=True)


def _begin(readers: Executor, store: Store, path: str, part: Part, buffer: Buffer) -> list[Future[memoryview]]:
    """Start to read the arrays of a file. Return one future for each piece of the file, in order."""
    begun = []
    for start in range(len(part.header), part.size, PIECE):
        into = buffer.span(part.start + start, part.start + min(part.size, start + PIECE))
        begun.append(readers.submit(_read_into, store, path, into, start, part.size))
    return begun


def _read_into(store: Store, path: str, into: memoryview, start: int, size: int) -> memoryview:
    """Read a piece of a file into `into`, and return `into`.

    Raises DamagedCheckpointError unless the file's size is `size` bytes.
    """
    try:
        held = store.read_into(path, into, start=start)
    except MissingError:
        raise DamagedCheckpointError(f"{_file_of(path)}: missing") from None
    if held != size:
        what = f"more than {size} bytes" if held > size else f"{held} bytes instead of {size}"
        raise DamagedCheckpointError(f"{_file_of(path)}: {what}")
    return into


def _require_sum(part: Part, reads: Iterable[Future[memoryview]], sha256: str) -> None:
    """Raise DamagedCheckpointError if a file's checksum is wrong.

    `reads` contains one future for each piece of the file, in order.
    """
    digest = hashlib.sha256(part.header)
    for each in reads:
        digest.update(each.result())
    if digest.hexdigest() != sha256:
        raise DamagedCheckpointError(f"{part.file}: checksum differs")


def _read_former(store: Store, found: Checkpoint, buffer: Buffer, former: Callable[[bytes], Arrays]) -> Checkpoint:
    """Read a checkpoint of format 1, and convert its arrays to the current format."""
    [(file, told)] = found.manifest.files.items()
    path = f"{found.name}/{file}"
    # Check the file's size before allocating memory, because a damaged manifest may contain a wrong size.
    _read_into(store, path, memoryview(bytearray(1)), 0, told.size)
    content = bytearray(told.size)
    _read_into(store, path, memoryview(content), 0, told.size)
    if FileSum.of(content) != told:
        raise DamagedCheckpointError(f"{file}: checksum differs")
    parts = buffer.fill(former(bytes(content)))
    subject = replace(found.manifest.subject, shapes=shapes(fields_of(parts)))
    return Checkpoint(found.name, replace(found.manifest, subject=subject), parts)


def _file_of(path: str) -> str:
    return path.rpartition("/")[2]
