"""Pages of a long list, read by a process of its own.

Reading from TLS and decoding each take more than a second per gigabyte, and within one process Python lets only one of
the two go on at a time.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from struct import Struct
from typing import NoReturn

from distrain.connection import Answer
from distrain.errors import DistrainError, UnreachableError

# An HTTP status, and how long the body is.
HEADER = Struct("!HQ")
# In place of a status: the body is a message for the user.
FAILED = 0


def is_worthwhile() -> bool:
    """Tell whether there is a second processor; elsewhere than on Linux a process cannot always be forked safely."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


class Reader:
    """Reads the pages after a token ahead of whoever takes them."""

    def __init__(self, ask: Callable[[str], Answer], next_token: Callable[[Answer], str | None], token: str) -> None:
        self._socket, theirs = socket.socketpair()
        self._buffer, self._other_buffer = bytearray(), bytearray()
        self._child = os.fork()
        if self._child == 0:
            self._socket.close()
            _read(theirs, ask, next_token, token)
        theirs.close()

    def page(self) -> Answer:
        """Return the next page; its body is good until the one after the next is taken."""
        self._buffer, self._other_buffer = self._other_buffer, self._buffer
        status, size = HEADER.unpack(self._receive(HEADER.size))
        if status == FAILED:
            raise UnreachableError(bytes(self._receive(size)).decode())
        return Answer(status, self._receive(size))

    def close(self) -> None:
        """End the process, wherever it is."""
        self._socket.close()
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)

    def _receive(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size + size // 4)
        body = memoryview(self._buffer)[:size]
        if self._socket.recv_into(body, size, socket.MSG_WAITALL) < size:
            raise UnreachableError("the process that reads the list ended; try again")
        return body


def _read(
    parent: socket.socket, ask: Callable[[str], Answer], next_token: Callable[[Answer], str | None], token: str | None
) -> NoReturn:
    """Be the process: send page after page, until the last one, a refusal or a failure."""
    try:
        while token:
            answer = ask(token)
            parent.sendall(HEADER.pack(answer.status, len(answer.body)))
            parent.sendall(answer.body)
            token = next_token(answer)
    except DistrainError as error:
        message = str(error).encode()
        parent.sendall(HEADER.pack(FAILED, len(message)) + message)
    except (KeyboardInterrupt, OSError):
        pass  # Whoever wanted the pages has gone, too.
    finally:
        # Nothing of the other process's is cleared up twice.
        os._exit(0)
