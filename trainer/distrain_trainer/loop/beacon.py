"""While this rank is busy, send UDP datagrams to the other ranks. Also receive their datagrams.

A rank that waits in a collective cannot see why another rank is late: that rank may hang, wait for its input, or
compile. A rank that is waiting for input or is compiling sends a datagram each second.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

# These addresses are reserved for documentation (RFC 5737, RFC 3849). No packet is sent to them: connecting a UDP
# socket only makes the kernel choose the pod's own source address.
ANYWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
TOKEN_BYTES = 16


@dataclass(frozen=True)
class Endpoint:
    """The address at which a rank receives datagrams, and the token by which its own datagrams are recognized."""

    host: str
    port: int
    token: bytes


class Beacon:
    """One rank's UDP socket. A lost datagram does no harm, because another one follows a second later."""

    def __init__(self) -> None:
        family, host = own_address()
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.bind(("", 0))
        self.endpoint = Endpoint(host, self._socket.getsockname()[1], os.urandom(TOKEN_BYTES))
        self._others: list[Endpoint] = []
        self.last_heard = float("-inf")

    def listen(self, endpoints: Sequence[Endpoint]) -> None:
        """Start the thread that receives the datagrams of the other ranks."""
        self._others = [endpoint for endpoint in endpoints if endpoint.token != self.endpoint.token]
        threading.Thread(target=self._hear, daemon=True).start()

    def say_busy(self) -> None:
        """Send one datagram to every other rank."""
        for other in self._others:
            with contextlib.suppress(OSError):  # Ignore send errors: the next datagram follows a second later.
                self._socket.sendto(self.endpoint.token, (other.host, other.port))

    def _hear(self) -> None:
        known = {other.token for other in self._others}
        while True:
            # recv also raises an error if an earlier send on this socket has failed.
            with contextlib.suppress(OSError):
                if self._socket.recv(TOKEN_BYTES) in known:
                    self.last_heard = time.monotonic()


def own_address() -> tuple[socket.AddressFamily, str]:
    """Return the address family and the address by which other pods reach this pod.

    If the pod has no route to other pods, return the family and the address of the loopback interface.
    """
    for family, anywhere in ANYWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((anywhere, 9))
            return family, probe.getsockname()[0]
    return socket.AF_INET, "127.0.0.1"
