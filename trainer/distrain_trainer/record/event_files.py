"""Write a run's figures as event files for TensorBoard, in a thread. docs/tensorboard.md describes them."""

from __future__ import annotations

import re
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from distrain_trainer.checkpoint.lease import Lease
from distrain_trainer.errors import StorageError
from distrain_trainer.record import events
from distrain_trainer.record.background import BackgroundWriter
from distrain_trainer.record.events import Event, Events
from distrain_trainer.storage import Retry, Store, open_store

FOLDER = "tensorboard"
# TensorBoard reads all files with `tfevents` in their names one after another, sorted by name.
NAME = re.compile(r"events\.out\.tfevents\.(\d{10})\..*")
# At this size in bytes, begin another file: each time a file grows, the whole file is uploaded to S3 again.
BYTES_PER_FILE = 1_000_000


class EventFiles(BackgroundWriter):
    """The event files of one start of a run, in the folder `uri`. Only this start of the run writes to these files."""

    def __init__(self, uri: str, value: str, *, lease: Lease | None, say: Callable[[str], None]) -> None:
        super().__init__("tensorboard", say)
        self._uri, self._value, self._lease = f"{uri.rstrip('/')}/{FOLDER}", value, lease
        self._events = Events()
        self._new: list[Event] = []
        self._store: Store | None = None
        # The current event file: its number, its name, and the part of its content that is already in the store.
        self._number, self._name, self._content = 0, "", b""
        self._thread.start()

    def add(self, line: str, figures: Mapping[str, Any]) -> None:
        """Add the events that a line of the record contains."""
        if self._is_closed or self._is_fenced:
            return
        with self._change:
            self._new += self._events.of(line, figures)
            self._change.notify_all()

    def _has_new(self) -> bool:
        return bool(self._new)

    def _write(self) -> None:
        with self._change:
            new = list(self._new)
        if not new:
            return
        store = self._store or self._open()
        if self._lease is not None:
            self._lease.require()
        head = b"" if self._content else events.encoded_head(new[0].wall_time)
        content = self._content + head + events.encoded(new)
        store.extend(self._name, content, len(self._content))
        with self._change:
            del self._new[: len(new)]
        self._content = content
        if len(content) >= BYTES_PER_FILE:
            self._begin_file()

    def _open(self) -> Store:
        """Choose a file name that sorts after the names of all earlier starts, even if this pod's clock is slow."""
        store = open_store(self._uri, value=self._value, retry=Retry(seconds=0, is_awaited=False))
        try:
            found = [int(match[1]) for name in store.names() if (match := NAME.fullmatch(name))]
        except StorageError:
            # Either the folder does not exist yet, or the access keys do not allow listing it. Then only the clock
            # determines the order of the files.
            found = []
        self._number = max(found, default=0)
        self._begin_file()
        self._store = store
        return store

    def _begin_file(self) -> None:
        self._number = max(int(time.time()), self._number + 1)
        self._name = f"events.out.tfevents.{self._number:010d}.{socket.gethostname()}.{uuid.uuid4().hex[:8]}"
        self._content = b""
