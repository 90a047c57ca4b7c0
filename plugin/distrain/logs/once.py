"""Read the logs of pods once, in the order of the pods.

Only a few logs are read at the same time, which limits the memory.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from time import sleep
from typing import TypeAlias

from distrain.apiserver.connection import CONNECTIONS
from distrain.errors import ForbiddenError, NoLogError, NotFoundError, UnreachableError
from distrain.logs.reader import Reader

# At most WAITING blocks of one log wait to be printed. A block has at most 64 KiB, unless a line is longer.
WAITING = 16
# A block of lines, or the error that ended the reading of a log.
Found: TypeAlias = "list[bytes] | UnreachableError"
# If the reading of a log breaks off, the plugin tries again. It makes at most TRIES attempts, with a pause of PAUSE
# seconds between two attempts.
TRIES, PAUSE = 5, 1.0


def in_order(readers: Sequence[Reader]) -> Iterator[tuple[Reader, Found]]:
    """Yield the blocks of each log, in the order of the readers. If a log cannot be read, yield the error."""
    return ((reader, found) for reader, results in readings(readers) for found in results)


def readings(readers: Sequence[Reader]) -> Iterator[tuple[Reader, Iterator[Found]]]:
    """Yield each reader together with the blocks of its log.

    The caller must take all blocks of a reader before it asks for the next reader.
    """
    ahead: list[_Reading] = []
    left = iter(readers)
    for reader in readers:
        while len(ahead) < CONNECTIONS and (following := next(left, None)):
            ahead.append(_Reading(following))
        yield reader, ahead.pop(0).results()


class _Reading(threading.Thread):
    """Read one log. The thread pauses while its queue of blocks is full.

    It is a daemon thread, so it ends with the program.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__(daemon=True)
        self._reader = reader
        self._found: queue.Queue[Found | None] = queue.Queue(WAITING)
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for block in _read(self._reader):
                self._found.put(block)
        except UnreachableError as error:
            self._found.put(error)
        except BaseException as error:
            self._error = error
        self._found.put(None)

    def results(self) -> Iterator[Found]:
        while (found := self._found.get()) is not None:
            yield found
        if self._error:
            raise self._error


def _read(reader: Reader) -> Iterator[list[bytes]]:
    for tries_left in reversed(range(TRIES)):
        try:
            yield from reader.read(has_rest=True)
        except (ForbiddenError, NoLogError, NotFoundError):
            raise
        except UnreachableError:
            if not tries_left:
                raise
            sleep(PAUSE)
        else:
            return
