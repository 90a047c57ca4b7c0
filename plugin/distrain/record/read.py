"""Read the lines of a record.

Skip lines that cannot be read: a program that is killed may write only half of a line.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from distrain.errors import DistrainError
from distrain.kube.decoders import decoder
from distrain.progress.steps import NOT_FINITE, is_odd, sane

# This program can read the record's format up to this version.
VERSION = 1
# If the trainer cannot append to a record's file, it starts another file beside it, with a number in its name.
NAME = re.compile(r"record(?:-([1-9]\d{0,8}))?\.jsonl")


class RecordError(DistrainError):
    """A record is missing, or cannot be read."""

    exit_code = 2


class FirstLine(Struct, frozen=True):
    """The fields of a record's first line that every version of the format has."""

    version: Any = None


class Line(Struct, frozen=True, kw_only=True):
    """A line of the record, which describes an event of the run.

    A number is None if it is unknown, or if it is impossible (see `progress.steps.sane`).
    """

    event: str
    # The number of this line among the lines with the same event. The numbers are not consecutive, because a long
    # record keeps only some lines.
    number: int = 0
    unix_seconds: float | None = None

    step: int | None = None
    samples: int | None = None
    epoch: float | None = None
    images_per_second: float | None = None
    images_per_second_mean: float | None = None
    loss: float | None = None
    step_seconds_total: float | None = None
    input_wait_seconds_total: float | None = None
    allreduce_wait_seconds_total: float | None = None
    checkpoint_stall_seconds_total: float | None = None

    framework: str | None = None
    model: str | None = None
    world_size: int | None = None
    world_size_before: int | None = None
    job: str | None = None
    generation: int | None = None
    steps: int | None = None
    epochs: float | None = None
    epoch_samples: int | None = None
    parameter_bytes: int | None = None
    values: dict[str, Any] | None = None

    checkpoint: str | None = None
    write_seconds: float | None = None
    stall_seconds: float | None = None
    seen_unix_seconds: float | None = None

    cause: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    accuracy: float | None = None
    top5_accuracy: float | None = None

    # This becomes true if the program logged a loss that is NaN or infinite. For NaN and for infinity the trainer
    # writes null.
    has_odd_loss: bool = False


class _Told(Struct, frozen=True):
    """The loss exactly as the line contains it: a loss of null differs from a line without a loss."""

    loss: Any = msgspec.UNSET


class Record(Struct, frozen=True):
    """The lines of a record in the order in which they were written, and the number of lines that could not be read."""

    lines: tuple[Line, ...]
    unreadable: int = 0

    def of(self, event: str) -> list[Line]:
        return [line for line in self.lines if line.event == event]

    def last(self, event: str) -> Line | None:
        return next((line for line in reversed(self.lines) if line.event == event), None)

    def count(self, event: str) -> int:
        """Return how many lines of an event were written, including lines that the record no longer contains."""
        last = self.last(event)
        return last.number if last is not None else 0


def newest(names: Iterable[str]) -> str | None:
    """Return the name of the record among these file names.

    If there are several, return the one with the largest number.
    """
    found = [(int(match[1] or 1), name) for name in names if (match := NAME.fullmatch(name))]
    return max(found)[1] if found else None


def in_folder(folder: Path) -> Record:
    """Read the record that a folder contains.

    Raises RecordError if the folder contains no record, or if the record cannot be read.
    """
    try:
        name = newest(path.name for path in folder.iterdir())
        content = (folder / name).read_bytes() if name else b""
    except OSError as error:
        raise RecordError(f"{error.filename} cannot be read: {error.strerror}; give the folder of a run") from None
    if name is None:
        raise RecordError(
            f"{folder} contains no record.jsonl; give the run's folder: "
            "<output.uri>/<namespace>/<release>, or the same below checkpoint.uri if output.uri is empty"
        )
    return parse(content, str(folder / name))


def parse(content: bytes, place: str) -> Record:
    """Parse the content of a record, which was read from `place`.

    Raises RecordError if no line can be read, or if the record has a newer version.
    """
    # On Windows, editors and shells write this mark at the beginning of a file.
    content = content.removeprefix(codecs.BOM_UTF8)
    texts = [text for text in content.split(b"\n") if text.strip()]
    _require_known_version(texts, place)
    lines = [line for line in map(_line, texts) if line is not None]
    if texts and not lines:
        raise RecordError(
            f"{place} is not a run's record: none of its lines is a JSON object with an event; see docs/record.md"
        )
    events = tuple(_numbered(line for line in lines if line.event != "record"))
    return Record(events, len(texts) - len(lines))


def _require_known_version(texts: list[bytes], place: str) -> None:
    try:
        version = decoder(FirstLine).decode(texts[0]).version if texts else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # A truncated line does not show its version.
        return
    if isinstance(version, str) and version.isdecimal() and int(version) <= VERSION:
        raise RecordError(
            f"{place} has the version {json.dumps(version)} as text in its first line; write the number {int(version)}"
        )
    if version is not None and (type(version) is not int or version > VERSION):
        raise RecordError(
            f"{place} has version {str(version)[:20]} of the record's format, and this distrain reads up to version "
            f"{VERSION}; read it with a newer distrain"
        )


def _line(text: bytes) -> Line | None:
    """Parse a line of a record; return None if the text is no such line. Characters that are not UTF-8 are replaced."""
    try:
        return _sane(decoder(Line, strict=False).decode(text), text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    finite = NOT_FINITE.sub("null", text.decode("utf-8", "replace")).encode()
    try:
        return _sane(decoder(Line, strict=False).decode(finite), finite)
    except (msgspec.DecodeError, RecursionError):
        return None


def _sane(line: Line, text: bytes) -> Line:
    is_odd_loss = line.event == "step" and _has_odd_loss(line.loss, text)
    number = 0 if is_odd(line.number) else line.number
    return sane(msgspec.structs.replace(line, number=number, has_odd_loss=is_odd_loss))


def _has_odd_loss(loss: float | None, text: bytes) -> bool:
    if loss is None:
        return decoder(_Told).decode(text).loss is not msgspec.UNSET
    return not math.isfinite(loss)


def _numbered(lines: Iterable[Line]) -> Iterator[Line]:
    """Number the lines of each event in ascending order.

    A line keeps its number if that is larger than the previous one. Lines that a user's own program has written may
    have no numbers.
    """
    newest: dict[str, int] = {}
    for line in lines:
        number = max(line.number, newest.get(line.event, 0) + 1)
        newest[line.event] = number
        yield msgspec.structs.replace(line, number=number)
