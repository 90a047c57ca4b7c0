"""Wait until a condition is true, up to a time limit."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Callable

from lab.errors import LabError


def wait_until(what: str, ready: Callable[[], bool], *, seconds: float = 180, pause: float = 0.1) -> None:
    """Wait until `ready` returns true. Raises LabError with the text `what` at the time limit."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise LabError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(pause)


def wait_for_port(host: str, port: int, *, seconds: float = 120) -> None:
    """Wait until a process listens on the port. Raises LabError at the time limit."""
    wait_until(f"{host}:{port}", lambda: listens(host, port), seconds=seconds, pause=0.05)


def listens(host: str, port: int) -> bool:
    """Return whether a process listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def free_port() -> int:
    """Return a free port that the kernel will not give to an outgoing connection before the program listens on it.

    For outgoing connections, Linux uses the ports from 32768.
    """
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(20_000, 32_768)))
            return int(probe.getsockname()[1])
