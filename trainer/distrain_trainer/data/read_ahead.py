"""Prefetch files: request several pieces of several files at the same time, within a memory limit."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from distrain_trainer.storage.raw_file import RawFile

# Bytes per request, and the number of concurrent requests. A single connection to S3 is slow, because each request
# waits for the previous answer.
PIECE = 4 * 1024**2
REQUESTS = 16
# Maximum bytes of all pieces per rank, whether they have arrived or are only requested.
MEMORY = 256 * 1024**2
# The size of a reader's buffer in bytes. A reader that asks for more bytes at once bypasses the buffer. With a larger
# buffer, more reads would go through the buffer, which copies the bytes twice.
BUFFER = 4096


class Source(Protocol):
    """The source of the files: a Store, or the cache of a Store."""

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int: ...


@dataclass(frozen=True)
class Span:
    """The part of a file to read: it begins at byte `start`, and ends at byte `end` or after the fraction `share` of
    the file, whichever comes first.

    `end` and `share` are only estimates that limit prefetching. A reader may still read more of the file.
    """

    name: str
    start: int = 0
    end: int | None = None
    share: float = 1.0


@dataclass(eq=False)
class Piece:
    """The bytes of a file from offset `start` on, in a buffer.

    `length` is the number of requested bytes, and after the response the number of received bytes.
    """

    start: int
    buffer: bytearray
    length: int
    is_done: bool = False
    error: Exception | None = None
    is_dropped: bool = False

    @property
    def place(self) -> memoryview:
        return memoryview(self.buffer)[: self.length]

    def covers(self, at: int) -> bool:
        return self.start <= at < self.start + self.length


@dataclass(eq=False)
class OpenFile:
    """A span, and the pieces of the span that have arrived or have been requested.

    `next` is the offset of the first byte that has not been requested yet.
    """

    span: Span
    next: int
    size: int | None = None
    limit: int = 0
    pieces: deque[Piece] = field(default_factory=deque)

    @property
    def has_more(self) -> bool:
        """Whether another piece can be requested.

        Before the first response only one piece can be requested, because the file's size is unknown until then.
        """
        return not self.pieces if self.size is None else self.next < min(self.size, self.limit)

    def claim(self, buffer: bytearray) -> Piece:
        end = self.next + len(buffer) if self.size is None else min(self.size, self.limit)
        # Except for a file's first and last piece, pieces begin and end at multiples of PIECE, like the pieces in a
        # cache.
        piece = Piece(self.next, buffer, min(len(buffer) - self.next % len(buffer), end - self.next))
        self.next += piece.length
        self.pieces.append(piece)
        return piece

    def learn(self, size: int) -> None:
        """Store the file's size, and compute from it how far to prefetch."""
        if self.size is None:
            estimate = size if self.span.share >= 1 else int(size * self.span.share) + PIECE
            self.limit = max(self.limit, estimate if self.span.end is None else min(estimate, self.span.end))
        self.size = size


class ReadAhead:
    """Files that one thread reads in a fixed order, from beginning to end, while other threads prefetch more pieces.

    Free buffers go first to the file that is being read, then to the following files in their order. So the reader
    always makes progress, even if there are few buffers.
    """

    def __init__(self, source: Source, spans: Sequence[Span]) -> None:
        self._source, self._spans = source, iter(spans)
        # The open files: first the file that is being read, then each following file of which a piece has been
        # requested.
        self._files: deque[OpenFile] = deque()
        lock = threading.Lock()
        self._arrived, self._claimable = threading.Condition(lock), threading.Condition(lock)
        self._is_closed = False
        self._free: list[bytearray] = []
        self._unmade = MEMORY // PIECE
        # The exception that has ended one of the threads.
        self._failure: BaseException | None = None
        for _ in range(REQUESTS):
            # Use daemon threads, so that the process can end while a request waits for S3.
            threading.Thread(target=self._fetch_all, daemon=True).start()

    @contextmanager
    def next_file(self) -> Iterator[io.BufferedReader]:
        """Open the file of the next span, at the beginning of the span.

        Reading raises StorageError, or the exception that has ended one of the threads.
        """
        with self._arrived:
            self._require_threads()
            file = self._files[0] if self._files else self._open_next()
            assert file is not None
        try:
            yield io.BufferedReader(_Raw(self, file), BUFFER)
        finally:
            with self._arrived:
                self._files.popleft()
                self._drop(file, len(file.pieces))

    def close(self) -> None:
        """End the threads. A thread that waits for a response ends only after the response has arrived."""
        with self._claimable:
            self._is_closed = True
            self._claimable.notify_all()

    def piece_at(self, file: OpenFile, at: int) -> Piece | None:
        """Wait for the piece that contains the byte `at`, and return it.

        Drop all earlier pieces of the file. Return None if `at` is beyond the end of the file. Raises StorageError, or
        the exception that has ended one of the threads.
        """
        with self._arrived:
            while file.size is None or at < file.size:
                # Check the threads first: the thread that fetched the next piece may have failed before it recorded the
                # piece completely.
                self._require_threads()
                if not (file.pieces and file.pieces[0].covers(at)):
                    self._make_first(file, at)
                if file.pieces and file.pieces[0].is_done:
                    if (error := file.pieces[0].error) is not None:
                        raise error
                    return file.pieces[0]
                self._arrived.wait()
        return None

    def _require_threads(self) -> None:
        """If an exception has ended a thread, raise it.

        Without this error, the reader could wait for ever: the other threads may end too, and then no more pieces
        arrive.
        """
        if self._failure is not None:
            raise self._failure

    def _make_first(self, file: OpenFile, at: int) -> None:
        """Drop all pieces before the piece that contains the byte `at`.

        If no piece contains that byte, drop all pieces and request a piece that does.
        """
        self._drop(file, next((place for place, piece in enumerate(file.pieces) if piece.covers(at)), len(file.pieces)))
        if not file.pieces:
            file.next, file.limit = at, max(file.limit, at + PIECE)
            self._claimable.notify()

    def _drop(self, file: OpenFile, count: int) -> None:
        for _ in range(count):
            piece = file.pieces.popleft()
            piece.is_dropped = True
            if piece.is_done:
                self._release(piece.buffer)

    def _fetch_all(self) -> None:
        try:
            while (claimed := self._claim()) is not None:
                self._fetch(*claimed)
        # An example is MemoryError. If the thread ended silently, the reader would wait for ever.
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        with self._arrived:
            self._arrived.notify_all()

    def _fetch(self, file: OpenFile, piece: Piece) -> None:
        error: Exception | None = None
        try:
            size = self._source.read_into(file.span.name, piece.place, start=piece.start)
        except Exception as caught:
            error = caught
        with self._arrived:
            piece.is_done, piece.error = True, error
            if error is None:
                if file.size is None:  # The file's size is now known, so the threads can request its other pieces.
                    self._claimable.notify(REQUESTS)
                piece.length = min(piece.length, max(0, size - piece.start))
                file.learn(size)
            if piece.is_dropped:
                self._release(piece.buffer)
            self._arrived.notify()

    def _claim(self) -> tuple[OpenFile, Piece] | None:
        """Wait until there is a piece to request and a free buffer. Return None when the files are closed."""
        with self._claimable:
            while not self._is_closed:
                file = self._first_with_more() if self._free or self._unmade else None
                if file is not None:
                    return file, file.claim(self._buffer())
                self._claimable.wait()
        return None

    def _first_with_more(self) -> OpenFile | None:
        return next((file for file in self._files if file.has_more), None) or self._open_next()

    def _open_next(self) -> OpenFile | None:
        span = next(self._spans, None)
        if span is None:
            return None
        self._files.append(OpenFile(span, span.start))
        return self._files[-1]

    def _buffer(self) -> bytearray:
        if self._free:
            return self._free.pop()
        self._unmade -= 1
        return bytearray(PIECE)

    def _release(self, buffer: bytearray) -> None:
        self._free.append(buffer)
        self._claimable.notify()


class _Raw(RawFile):
    """A Python file object whose bytes come from the pieces of ReadAhead."""

    def __init__(self, ahead: ReadAhead, file: OpenFile) -> None:
        super().__init__(file.span.start)
        self._ahead, self._file = ahead, file
        self._piece: Piece | None = None

    def readinto(self, buffer: Any) -> int:
        if self._piece is None or not self._piece.covers(self.at):
            self._piece = self._ahead.piece_at(self._file, self.at)
            if self._piece is None:
                return 0
        first = self.at - self._piece.start
        count = min(len(buffer), self._piece.length - first)
        buffer[:count] = self._piece.place[first : first + count]
        self.at += count
        return count
