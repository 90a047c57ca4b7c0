"""Keep a run's record, and write it in a thread."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from distrain_trainer import errors
from distrain_trainer.checkpoint.head import FINISHED
from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.errors import ConflictError, FencedError, TrainerError, UnavailableError
from distrain_trainer.record import lines, starts
from distrain_trainer.record.background import BackgroundWriter
from distrain_trainer.record.event_files import EventFiles
from distrain_trainer.record.lines import Line, UnreadableError
from distrain_trainer.storage import Retry, Store, open_store

FILE, LATER_FILE = "record.jsonl", "record-{}.jsonl"
# How often to try to write the file before giving up. An attempt is repeated only if another process has changed the
# file.
ATTEMPTS = 5
# How long rank 0 waits, in seconds, until its last lines are written: after a failure or stop, and after a finished
# run. After a failure, the other ranks wait SECONDS_FOR_RANK_0 until rank 0 has ended, so the first number must be
# less.
SECONDS_FOR_LAST, SECONDS_FOR_FINISHED = 3.0, 30.0
# If more lines than this wait for the storage, remove some of them: an outage may last for days.
MOST_LINES = 10_000
# How a run can end: FINISHED, STOPPED or FAILED.
FAILED = "failed"


class Record(BackgroundWriter):
    """The record of a run at `uri`. If `uri` is empty, as on all ranks except rank 0, the record does nothing.

    If `event_files` is given, it receives each line too, and is closed together with the record.
    """

    def __init__(
        self,
        uri: str = "",
        value: str = "",
        *,
        lease: Lease | None = None,
        say: Callable[[str], None] = print,
        event_files: EventFiles | None = None,
    ) -> None:
        super().__init__("record", say)
        self._uri, self._value, self._lease, self._event_files = uri, value, lease, event_files
        self._writer = uuid.uuid4().hex
        # The name of the record's file, once it is chosen. The file's tag is None if the file does not exist.
        self._store: Store | None = None
        self._name = FILE
        self._tag: str | None = None
        # The lines that are in the file, and the lines of this process that are not in the file yet.
        self._held: list[Line] = []
        self._new: list[Line] = []
        # For each event, the number of this process's newest line, and the number of its newest line that is in the
        # file.
        self._added: dict[str, int] = {}
        self._written: dict[str, int] = {}
        if uri:
            errors.AT_END.append(self.fail)
            self._thread.start()

    def add(self, event: str, **figures: Any) -> None:
        """Add a line that contains all figures that are not None."""
        if not self._uri or self._is_closed:
            return
        if self._event_files is not None and not self._is_fenced:
            self._event_files.add(event, figures)
        with self._change:
            self._new.append(self._line(event, figures))
            if len(self._new) > MOST_LINES:
                self._new = lines.thin(self._new)
            self._change.notify_all()

    def _line(self, event: str, figures: dict[str, Any]) -> Line:
        self._added[event] = self._added.get(event, 0) + 1
        return lines.line_of(event, self._added[event], figures)

    def count(self, event: str) -> int | None:
        """Return how often an event has occurred in all starts of the run, or None if this is not known yet."""
        if self._store is None:
            return None
        with self._change:
            held, added = lines.newest_numbers(self._held).get(event, 0), self._added.get(event, 0)
            return held + added - self._written.get(event, 0)

    def end(self, cause: str, *, exit_code: int = 0, **figures: Any) -> None:
        """Add the last line, and wait for some seconds until it is written."""
        if not self._uri or self._is_closed:
            return
        self.add("end", cause=cause, exit_code=exit_code, **figures)
        last = time.monotonic() + (SECONDS_FOR_FINISHED if cause == FINISHED else SECONDS_FOR_LAST)
        writers: list[BackgroundWriter] = [self]
        if self._event_files is not None:
            writers.append(self._event_files)
        for writer in writers:
            writer.close()
        errors.AT_END.remove(self.fail)
        for writer in writers:
            writer.join(last - time.monotonic())

    def fail(self, error: BaseException) -> None:
        """When an exception ends this process, add a last line about it."""
        is_known = isinstance(error, TrainerError)
        reason = " ".join(str(error).split())
        newest = next((line for line in reversed(self._new + self._held) if line["event"] == "step"), {})
        self.end(
            FAILED,
            exit_code=error.exit_code if isinstance(error, TrainerError) else 1,
            reason=reason if is_known else f"{type(error).__name__}: {reason}",
            step=newest.get("step"),
            samples=newest.get("samples"),
        )

    def _has_new(self) -> bool:
        return bool(self._new)

    def _write(self) -> None:
        """Write the file.

        If another process has changed the file, read it again first. Raises FencedError and StorageError.
        """
        store = self._store or self._open()
        for _ in range(ATTEMPTS):
            with self._change:
                new = list(self._new)
            try:
                content, kept = lines.render([*self._held, *self._follow(new)], self._writer)
            except UnreadableError as error:
                self._begin_another(store, str(error), self._own_start())
                continue
            try:
                self._tag = store.write_if(self._name, content, self._tag)
            except ConflictError:
                self._read_again(store)
                continue
            with self._change:
                # While the file was written, the main thread may have added lines or removed some.
                written = {id(line) for line in new}
                self._held, self._new = kept, [line for line in self._new if id(line) not in written]
                self._written.update(lines.newest_numbers(new))
            return
        why = "the store says at each write that the file has changed, although it was read again each time"
        raise UnavailableError(f"{store.value}: {store.path(self._name)} cannot be written: {why}")

    def _follow(self, new: list[Line]) -> list[Line]:
        """Renumber new lines, so that their numbers continue the numbers in the file."""
        held = lines.newest_numbers(self._held)
        return [
            {**line, "number": held.get(event, 0) + line["number"] - self._written.get(event, 0)}
            for line in new
            for event in [line["event"]]
        ]

    def _open(self) -> Store:
        """Read the existing record, and add lines about what happened between the record's last line and this start."""
        store = open_store(self._uri, value=self._value, retry=Retry(seconds=0, is_awaited=False))
        self._name, self._tag, self._held = FILE, None, []
        number, name = 2, FILE
        while (found := store.read_tagged(name)) is not None:
            self._name, content, self._tag = name, *found
            name, number = LATER_FILE.format(number), number + 1
        if self._tag is not None:
            try:
                self._held, _ = lines.read(content)
            except UnreadableError as error:
                self._begin_another(store, str(error))
        with self._change:
            before = starts.between(self._held, self._new[0])
            self._new = [*(self._line(event, figures) for event, figures in before), *self._new]
        self._store = store
        return store

    def _own_start(self) -> list[Line]:
        """Return a list with this process's start line, or an empty list if the file does not contain this line."""
        starts_in_file = [line for line in self._held if line["event"] == "start"]
        return starts_in_file[-1:] if "start" in self._written else []

    def _begin_another(self, store: Store, reason: str, held: Sequence[Line] = ()) -> None:
        """Stop writing to this file, leave it unchanged, and begin a new file with the lines `held`."""
        _, _, number = self._name.removesuffix(".jsonl").partition("-")
        following = LATER_FILE.format(int(number or "1") + 1)
        self._say(f"record: {store.path(self._name)} is not continued, as {reason}; it stays, and {following} begins")
        self._name, self._tag, self._held = following, None, [*held]

    def _read_again(self, store: Store) -> None:
        """Read the lines that another process has written.

        Raises FencedError if that process has taken over the run.
        """
        found = store.read_tagged(self._name)
        # Somebody has deleted the file. This process still knows the file's lines, and writes them again.
        if found is None:
            self._tag = None
            return
        try:
            held, writer = lines.read(found[0])
        except UnreadableError as error:
            self._begin_another(store, str(error), self._held)
            return
        if not held:  # Somebody has emptied the file.
            self._tag = found[1]
            return
        if writer != self._writer:
            if self._lease is None:
                raise FencedError("another process writes the record")
            self._lease.change()  # Raises FencedError if another generation holds the run.
        self._held, self._tag = held, found[1]
