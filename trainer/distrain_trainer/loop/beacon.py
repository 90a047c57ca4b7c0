"""Tell the other ranks that this one is busy with itself, and hear it of them: by datagrams, beside what trains.

All ranks wait in one collective, and the ones that wait cannot see why the last one does not come: it may hang, or it
may wait for its input, or compile. One that is busy says so each second.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

# For documentation alone (RFC 5737, 3849): nothing is sent there, but the system says from which address it would be.
ANYWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
TOKEN_BYTES = 16


@dataclass(frozen=True)
class Place:
    """Where a rank hears the others, and what it signs its own datagrams with."""

    host: str
    port: int
    token: bytes


class Beacon:
    """One rank's socket. Datagrams may get lost: there are more."""

    def __init__(self) -> None:
        family, host = own_address()
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind(("", 0))
        self.place = Place(host, self._socket.getsockname()[1], os.urandom(TOKEN_BYTES))
        self._others: list[Place] = []
        self.last_heard = float("-inf")

    def meet(self, places: Sequence[Place]) -> None:
        """Hear the other ranks from now on, in a thread."""
        self._others = [place for place in places if place.token != self.place.token]
        threading.Thread(target=self._hear, daemon=True).start()

    def say_busy(self) -> None:
        """Tell every other rank that this one is alive and busy."""
        for other in self._others:
            with contextlib.suppress(OSError):  # Nobody depends on one datagram.
                self._socket.sendto(self.place.token, (other.host, other.port))

    def _hear(self) -> None:
        known = {other.token for other in self._others}
        while True:
            with contextlib.suppress(OSError):  # What the last datagram met comes back as an error of the next call.
                if self._socket.recv(TOKEN_BYTES) in known:
                    self.last_heard = time.monotonic()


def own_address() -> tuple[socket.AddressFamily, str]:
    """Return this pod's address, as other pods know it; loopback's where there is no way out."""
    for family, anywhere in ANYWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((anywhere, 9))
            return family, probe.getsockname()[0]
    return socket.AF_INET, "127.0.0.1"
