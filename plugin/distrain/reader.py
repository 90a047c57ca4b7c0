"""Pages of a long list, read by a process of its own.

Reading from TLS and decoding each take more than a second per gigabyte, and within one process Python lets only one of
the two go on at a time.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import NoReturn

from distrain.connection import Answer
from distrain.errors import DistrainError, UnreachableError

# An HTTP status, and how long the body is.
HEADER = struct.Struct("!HQ")
# In place of a status: the body is a message for the user.
FAILED = 0
# One that is looked at, one that is ready, and one that is filled.
BUFFERS = 3
FREE = b"."


def is_worthwhile() -> bool:
    """Tell whether there is a second processor; elsewhere than on Linux a process cannot always be forked safely."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


class Reader:
    """Reads the pages after a token ahead of whoever takes them, into memory that both processes share."""

    def __init__(self, ask: Callable[[str], Answer], next_token: Callable[[Answer], str | None], token: str) -> None:
        self._socket, theirs = socket.socketpair()
        self._files = [os.memfd_create("page") for _ in range(BUFFERS)]
        self._views = [memoryview(b"")] * BUFFERS
        self._taken = 0
        self._child = os.fork()
        if self._child == 0:
            self._socket.close()
            _read(theirs, self._files, ask, next_token, token)
        theirs.close()

    def page(self) -> Answer:
        """Return the next page; its body is good until the one after the next is taken."""
        if self._taken >= BUFFERS - 1:
            with suppress(OSError):  # It has ended, and left its last pages.
                self._socket.sendall(FREE)
        try:
            status, size = HEADER.unpack(self._socket.recv(HEADER.size, socket.MSG_WAITALL))
        except (OSError, struct.error) as error:
            raise UnreachableError("the process that reads the list ended; try again") from error
        body = self._mapped(self._taken % BUFFERS, size)
        self._taken += 1
        if status == FAILED:
            raise UnreachableError(bytes(body).decode())
        return Answer(status, body)

    def _mapped(self, number: int, size: int) -> memoryview:
        """Return what a buffer holds. Mapped anew for each page, each piece of 4 KiB would cost some microseconds."""
        if size > len(self._views[number]):
            file = self._files[number]
            self._views[number] = memoryview(mmap(file, os.fstat(file).st_size, access=ACCESS_READ))
        return self._views[number][:size]

    def close(self) -> None:
        """End the process, wherever it is."""
        self._socket.close()
        for file in self._files:
            os.close(file)
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _read(
    parent: socket.socket,
    files: list[int],
    ask: Callable[[str], Answer],
    next_token: Callable[[Answer], str | None],
    token: str | None,
) -> NoReturn:
    """Be the process: hand over page after page, until the last one, a refusal or a failure."""
    number = 0
    try:
        while token:
            answer = ask(token)
            _hand_over(parent, files, number, answer.status, answer.body)
            number, token = number + 1, next_token(answer)
    except DistrainError as error:
        _hand_over(parent, files, number, FAILED, str(error).encode())
    except (KeyboardInterrupt, OSError):
        pass  # Whoever wanted the pages has gone, too.
    finally:
        # Nothing of the other process's is cleared up twice.
        os._exit(0)


def _hand_over(parent: socket.socket, files: list[int], number: int, status: int, body: bytes | memoryview) -> None:
    if number >= BUFFERS:
        parent.recv(len(FREE), socket.MSG_WAITALL)
    size, written = len(body), 0
    while written < size:
        written += os.pwrite(files[number % BUFFERS], body[written:], written)
    parent.sendall(HEADER.pack(status, size))
