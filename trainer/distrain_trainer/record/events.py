"""Turn the lines of a record into TensorBoard events, and encode the events. docs/tensorboard.md lists the scalars."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# The version of the file format, which is written in the first event of a file.
FILE_VERSION = "brain.Event:2"
# Only one of every `_interval` step lines becomes an event. After KEPT_BETWEEN_HALVINGS events, the interval is
# doubled. So a million steps give at most 10,000 events.
KEPT_BETWEEN_HALVINGS = 1000
OF_A_STEP = ("loss", "images_per_second", "checkpoint_stall_seconds_total")
OF_A_TEST = ("accuracy", "top5_accuracy")


class Event(NamedTuple):
    """An event for TensorBoard: the scalars of a step, or the start of a process.

    A new process may resume from a step before the last step of the previous process. At its start event, TensorBoard
    drops the events of the steps that the new process repeats.
    """

    step: int
    wall_time: float
    scalars: dict[str, float]
    is_start: bool = False


class Events:
    """The events of one process, in the order of their steps and times."""

    def __init__(self) -> None:
        self._world_size: float | None = None
        self._last_time = 0.0
        # Of every `_interval` step lines, one is kept. `_seen` counts all step lines, and `_kept` counts the lines that
        # were kept since the interval was last doubled.
        self._seen = self._kept = 0
        self._interval = 1
        self._skipped: Event | None = None

    def of(self, line: str, figures: Mapping[str, Any]) -> list[Event]:
        """Return the events for a line of the record.

        `line` is the kind of the line: start, step, end or another kind.
        """
        if line == "start":
            self._world_size = figures.get("world_size")
            # At a start, TensorBoard keeps the earlier events up to the resumed checkpoint's step.
            return [self._event(figures["step"] + 1, {}, is_start=True)]
        if line == "step":
            return self._thinned(self._step(figures))
        if line == "evaluation":
            return [self._tested(figures)]
        return self._end(figures) if line == "end" else []

    def _step(self, figures: Mapping[str, Any]) -> Event:
        found = {name: figures.get(name) for name in OF_A_STEP} | {"world_size": self._world_size}
        return self._event(figures["step"], found)

    def _end(self, figures: Mapping[str, Any]) -> list[Event]:
        """Return the event of the last step if `_thinned` has skipped it.

        Also return the accuracies if the run has finished.
        """
        found = [self._skipped] if self._skipped is not None else []
        self._skipped = None
        if figures.get("accuracy") is not None:
            found.append(self._tested(figures))
        return found

    def _tested(self, figures: Mapping[str, Any]) -> Event:
        return self._event(figures["step"], {name: figures.get(name) for name in OF_A_TEST})

    def _event(self, step: int, scalars: Mapping[str, float | None], *, is_start: bool = False) -> Event:
        self._last_time = max(self._last_time, time.time())
        known = {name: float(figure) for name, figure in scalars.items() if figure is not None}
        return Event(step, self._last_time, known, is_start)

    def _thinned(self, event: Event) -> list[Event]:
        """Return the event of a step, or nothing if this step is skipped.

        If the run ends after a skipped step, `_end` returns the event of that step.
        """
        is_kept = self._seen % self._interval == 0
        self._seen += 1
        if not is_kept:
            self._skipped = event
            return []
        self._skipped = None
        self._kept += 1
        if self._kept == KEPT_BETWEEN_HALVINGS:
            self._kept, self._interval = 0, 2 * self._interval
        return [event]


def encoded_head(wall_time: float) -> bytes:
    """Return the first event of a file."""
    from tensorboardX.proto.event_pb2 import Event as Message

    return _framed(Message(wall_time=wall_time, file_version=FILE_VERSION).SerializeToString())


def encoded(events: Iterable[Event]) -> bytes:
    """Return events in the encoding of an event file."""
    return b"".join(_framed(_message(event).SerializeToString()) for event in events)


def _message(event: Event) -> Any:
    # Import these modules only here: only runs with event files need them. The thread that writes the files imports
    # them, not the thread that trains.
    from tensorboardX.proto.event_pb2 import Event as Message
    from tensorboardX.proto.event_pb2 import SessionLog
    from tensorboardX.proto.summary_pb2 import Summary

    message = Message(wall_time=event.wall_time, step=event.step)
    if event.is_start:
        message.session_log.CopyFrom(SessionLog(status=SessionLog.START))
    else:
        values = [Summary.Value(tag=name, simple_value=figure) for name, figure in event.scalars.items()]
        message.summary.CopyFrom(Summary(value=values))
    return message


def _framed(content: bytes) -> bytes:
    """Return a record of a TFRecord file, which consists of the length, the content, and the checksums of both.

    Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
    """
    from tensorboardX.record_writer import masked_crc32c

    length = struct.pack("<Q", len(content))
    checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, content))
    return length + next(checksums) + content + next(checksums)
