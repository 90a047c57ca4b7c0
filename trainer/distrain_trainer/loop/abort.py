"""If one process of a job with parameter servers is lost, end all other processes of the job.

In other jobs, mpirun and torchrun end all ranks when one rank fails. Jobs with parameter servers have no such launcher.
Without further measures, all other processes would wait for a lost process for ever. So each process keeps a connection
to the first process (MXNet's scheduler or TensorFlow's chief). If a process closes its connection without saying
goodbye, the first process logs which process is lost, and ends. When the first process ends, its connections to all
other processes close. Each of these processes then exits too. So a restarted process never meets a process from before
the restart.

A server that was asked to stop (SIGTERM) tells the first process, which tells all others. So all of them stop after the
same step, even if only the pod of a server ends.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from distrain_trainer.errors import StoppedError

GOODBYE = b"goodbye\n"
# This line tells the other processes that the run has stopped as requested. The run can resume from the step after
# which it has stopped.
STOPPED = b"stopped\n"
# This line asks the other processes to stop the run.
STOP = b"stop\n"
SECONDS_BETWEEN_TRIES = 0.5
SECONDS_BETWEEN_LINES = 60.0
# If a machine is lost, nobody closes its connections. So TCP probes the peer after 10 s of silence, and gives up 15 s
# later.
KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}


@dataclass
class AbortChannel:
    """The abort connections of this process.

    The first process is connected to all others. Each of the others is connected only to the first. `hear` is called if
    another process asks to stop.
    """

    connections: list[socket.socket] = field(default_factory=list)
    is_over: bool = False
    hear: Callable[[], None] = lambda: None

    def leave(self) -> None:
        """Tell the other side that this process ends because the training is over, not because it failed."""
        self._tell(GOODBYE)

    def stop(self) -> None:
        """Tell the connected processes that the run stops as requested, so that every process stops."""
        self._tell(STOPPED)

    def ask_to_stop(self) -> None:
        """Ask the connected processes to stop the run after a step. The first process passes this on to all others."""
        self._send(STOP)

    def _tell(self, word: bytes) -> None:
        self.is_over = True
        self._send(word)

    def _send(self, word: bytes) -> None:
        for connection in self.connections:
            with contextlib.suppress(OSError):  # The other process has already closed its end.
                connection.sendall(word)


def listen(port: int) -> AbortChannel:
    """Accept the connections of all other processes. Called only by the first process."""
    channel = AbortChannel()
    listener = socket.create_server(("", port), backlog=1024)
    _start(_accept, channel, listener)
    return channel


def connect(host: str, port: int, name: str, *, first: str = "the scheduler", tells: bool = False) -> AbortChannel:
    """Connect to the first process, and retry until it accepts the connection.

    `name` is this process's role and index, for logs. With `tells`, log a line if the first process ends before the
    training is over.
    """
    connection = _connect(host, port, first)
    _keep_alive(connection)
    connection.sendall(f"{name}\n".encode())
    channel = AbortChannel([connection])
    line = f"{first} has ended before the training, and so all others do; its log says why"
    _start(_end_with_first, channel, connection, line if tells else "")
    return channel


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


def _accept(channel: AbortChannel, listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        _keep_alive(connection)
        channel.connections.append(connection)
        _start(_end_with_other, channel, connection)


def _end_with_other(channel: AbortChannel, connection: socket.socket) -> None:
    name, _, rest = _read(connection, channel.ask_to_stop).partition(b"\n")
    if rest == STOPPED:
        channel.stop()
        _end(code=StoppedError.exit_code)
    if name and rest != GOODBYE and not channel.is_over:
        _end(f"{name.decode()} has ended before the training, and so all others do; its log says why")


def _end_with_first(channel: AbortChannel, connection: socket.socket, line: str) -> None:
    said = _read(connection, lambda: channel.hear())
    if said == STOPPED and not channel.is_over:
        _end(code=StoppedError.exit_code)
    if said != GOODBYE and not channel.is_over:
        _end(line)


def _read(connection: socket.socket, hear: Callable[[], None]) -> bytes:
    """Read until the connection closes or breaks. Call `hear` for a line that asks to stop, and leave this line out."""
    content = b""
    try:
        while part := connection.recv(1024):
            content += part
            if STOP in content:
                content = content.replace(STOP, b"")
                hear()
    except OSError:
        pass
    return content


def _end(line: str = "", code: int = 1) -> NoReturn:
    # Use os._exit: the main thread waits inside the framework, where no exception can reach it.
    if line:
        print(f"distrain: {line}", file=sys.stderr, flush=True)
    os._exit(code)


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _start(function: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()
