"""Ends every process of a job when one is lost, where no starter does.

mpirun and torchrun end the other ranks when one fails. Around parameter servers nobody does: the servers and the other
workers would wait for the lost one's next message for ever. So each of them holds a connection to one process: MXNet's
scheduler, TensorFlow's chief. One that closes without a goodbye is a process lost: that one names it and ends, which
closes the connections of all others, and they end as well. All at once: whoever starts again meets none from before.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import NoReturn

from distrain_trainer.errors import StoppedError

GOODBYE = b"goodbye\n"
# All were asked to stop, and have: to go on later.
STOPPED = b"stopped\n"
SECONDS_BETWEEN_TRIES = 0.5
SECONDS_BETWEEN_LINES = 60.0
# A machine that is gone closes no connection: it is asked after 10 s of silence, and given up 15 s later.
KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}


@dataclass
class Lifeline:
    """This process's connections: the first one's to all others, any other's to the first one."""

    connections: list[socket.socket] = field(default_factory=list)
    is_over: bool = False

    def leave(self) -> None:
        """Say that this process ends because the training has, not because it failed."""
        self.is_over = True
        for connection in self.connections:
            try:
                connection.sendall(GOODBYE)
            except OSError:  # The other one has left already.
                continue

    def stop(self) -> None:
        """Say that this process stops, as it was asked to, and so all others do."""
        self.is_over = True
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.sendall(STOPPED)


def hold(port: int) -> Lifeline:
    """Take the connections of all others, in the first process."""
    lifeline = Lifeline()
    listener = socket.create_server(("", port), backlog=1024)
    _start(_accept, lifeline, listener)
    return lifeline


def join(host: str, port: int, name: str, *, first: str = "the scheduler", tells: bool = False) -> Lifeline:
    """Connect to the first process, which may start later, under a name that a user knows this process by.

    With `tells` the end of the first process is told in a line.
    """
    connection = _connect(host, port, first)
    _keep_alive(connection)
    connection.sendall(f"{name}\n".encode())
    lifeline = Lifeline([connection])
    line = f"{first} has ended before the training, and so all others do; its log says why"
    _start(_end_with_first, lifeline, connection, line if tells else "")
    return lifeline


def _connect(host: str, port: int, first: str) -> socket.socket:
    said = time.monotonic()
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=10)
        except OSError as error:
            if time.monotonic() - said > SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                print(f"waiting for {first} at {host}:{port} ({error})", file=sys.stderr, flush=True)
            time.sleep(SECONDS_BETWEEN_TRIES)
        else:
            connection.settimeout(None)
            return connection


def _accept(lifeline: Lifeline, listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        _keep_alive(connection)
        lifeline.connections.append(connection)
        _start(_end_with_other, lifeline, connection)


def _end_with_other(lifeline: Lifeline, connection: socket.socket) -> None:
    name, _, rest = _read(connection).partition(b"\n")
    if rest == STOPPED:
        lifeline.stop()
        _end(code=StoppedError.exit_code)
    if name and rest != GOODBYE and not lifeline.is_over:
        _end(f"{name.decode()} has ended before the training, and so all others do; its log says why")


def _end_with_first(lifeline: Lifeline, connection: socket.socket, line: str) -> None:
    said = _read(connection)
    if said == STOPPED and not lifeline.is_over:
        _end(code=StoppedError.exit_code)
    if said != GOODBYE and not lifeline.is_over:
        _end(line)


def _read(connection: socket.socket) -> bytes:
    """Return all that comes until the connection closes, however it does."""
    content = b""
    try:
        while part := connection.recv(1024):
            content += part
    except OSError:
        pass
    return content


def _end(line: str = "", code: int = 1) -> NoReturn:
    # At once, as the main thread waits inside the framework and would not hear of it.
    if line:
        print(f"distrain: {line}", file=sys.stderr, flush=True)
    os._exit(code)


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _start(function: object, *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()  # type: ignore[arg-type]
