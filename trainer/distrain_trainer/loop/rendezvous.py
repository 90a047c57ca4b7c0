"""At the start of a job, wait until the other processes accept connections."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from distrain_trainer.errors import LostPeerError

SECONDS_BETWEEN_TRIES = 0.2
SECONDS_TO_ANSWER = 5.0
# distrain-launch waits equally long for workers: new nodes may have to start, and images may have to be pulled.
SECONDS_TO_START = 1800.0


def wait_until_listening(processes: Mapping[str, str]) -> None:
    """Wait until every process accepts connections. `processes` maps the name of each process to its host:port.

    Raises LostPeerError if a process does not listen within SECONDS_TO_START.
    """
    begun = time.monotonic()
    for name, address in processes.items():
        while not listens(address):
            if time.monotonic() - begun > SECONDS_TO_START:
                late = f"{name} at {address} has not started in {SECONDS_TO_START:.0f} s"
                raise LostPeerError(f"{late}; see its log, and its pod's events")
            time.sleep(SECONDS_BETWEEN_TRIES)


def listens(address: str) -> bool:
    """Return whether a process accepts connections at host:port."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), SECONDS_TO_ANSWER):
        return True
    return False
