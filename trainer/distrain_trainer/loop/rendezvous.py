"""Wait at the start until the other processes of a job listen."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from distrain_trainer.errors import LostPeerError

SECONDS_BETWEEN_TRIES = 0.2
SECONDS_TO_ANSWER = 5.0
# As long as distrain-launch waits for workers: images are pulled, nodes are started.
SECONDS_TO_START = 1800.0


def wait_until_listening(processes: Mapping[str, str]) -> None:
    """Return once every process, by name, listens at its host:port. Raises LostPeerError when one does not start."""
    begun = time.monotonic()
    for name, address in processes.items():
        while not listens(address):
            if time.monotonic() - begun > SECONDS_TO_START:
                late = f"{name} at {address} has not started in {SECONDS_TO_START:.0f} s"
                raise LostPeerError(f"{late}; see its log, and its pod's events")
            time.sleep(SECONDS_BETWEEN_TRIES)


def listens(address: str) -> bool:
    """Tell whether a process listens at host:port."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), SECONDS_TO_ANSWER):
        return True
    return False
