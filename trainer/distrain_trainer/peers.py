"""Notice within seconds that another process of the job is gone: one that waits for it would wait for ever."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from typing import NoReturn

from distrain_trainer.errors import LostPeerError, end_rank

SECONDS_BETWEEN = 1.0
SECONDS_BETWEEN_TRIES = 0.2
SECONDS_TO_ANSWER = 5.0
# A port that refuses says that nothing listens there; silence may be the network's.
REFUSALS = 2
SECONDS_OF_SILENCE = 20.0
# As long as distrain-launch waits for workers: images are pulled, nodes are started.
SECONDS_TO_START = 1800.0


class Watch:
    """Ends this process with a line when one of the named processes, each listening at host:port, is gone.

    Whoever ends so passes on to the `speaker`, a host:port, who is gone: the speaker may not have noticed it yet, and
    would else name who has ended on account of it.
    """

    def __init__(self, peers: Mapping[str, str], *, speaker: str = "") -> None:
        self._peers, self._speaker = peers, speaker
        self._stopped = threading.Event()
        self._telling = threading.Lock()
        for name, address in peers.items():
            threading.Thread(target=self._follow, args=(name, address), daemon=True).start()

    def hear(self, port: int) -> None:
        """By the speaker: take what others pass on, from now on. Where the port is taken it does without."""
        with contextlib.suppress(OSError):
            listener = socket.create_server(("", port), backlog=1024)
            threading.Thread(target=self._hear, args=(listener,), daemon=True).start()

    def meet(self) -> None:
        """Return once each of the others listens. The watch ends this process when one never does."""
        for address in self._peers.values():
            while not listens(address):
                time.sleep(SECONDS_BETWEEN_TRIES)

    def stop(self) -> None:
        """Let the others end: they may now."""
        self._stopped.set()

    def explain(self, reason: str) -> NoReturn:
        """Tell why a message to another process failed: the watch is about to find out which one is gone, and ends us.

        Raises LostPeerError when it finds everyone there.
        """
        time.sleep(2 * SECONDS_OF_SILENCE)
        raise LostPeerError(f"the connection to another process broke; see the logs of the others: {reason[:300]}")

    def _follow(self, name: str, address: str) -> None:
        try:
            wait_until_gone(name, address, self._stopped)
        except LostPeerError as error:
            self._end(name, error)

    def _hear(self, listener: socket.socket) -> None:
        while not self._stopped.is_set():
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                connection.settimeout(SECONDS_TO_ANSWER)
                name = connection.recv(100).decode(errors="replace")
                if name in self._peers and not self._stopped.is_set():
                    self._end(name, is_gone(name, self._peers[name]))

    def _end(self, name: str, error: LostPeerError) -> NoReturn:
        self._telling.acquire()  # For good: who is gone first is the cause of the others' end.
        if self._speaker:
            with contextlib.suppress(OSError), connection_to(self._speaker) as to:
                to.sendall(name.encode())
        end_rank(error)


def listens(address: str) -> bool:
    """Tell whether something listens at host:port."""
    with contextlib.suppress(OSError), connection_to(address):
        return True
    return False


def connection_to(address: str) -> socket.socket:
    """Connect to host:port, within the seconds to answer. Raises OSError."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SECONDS_TO_ANSWER)


def wait_until_gone(name: str, address: str, stopped: threading.Event) -> None:
    """Raise LostPeerError once a process that answered answers no more, or never did. Return when stopped."""
    begun = time.monotonic()
    answered, refusals = 0.0, 0
    while not stopped.wait(SECONDS_BETWEEN):
        try:
            connection_to(address).close()
            answered, refusals = time.monotonic(), 0
        except ConnectionRefusedError:
            refusals += 1
        except OSError:  # No answer in time, no route, or no such name yet.
            pass
        now = time.monotonic()
        if not answered and now - begun > SECONDS_TO_START:
            raise LostPeerError(
                f"{name} at {address} has not started in {SECONDS_TO_START:.0f} s; see its log, and its pod's events"
            )
        if answered and (refusals >= REFUSALS or now - answered > SECONDS_OF_SILENCE) and not stopped.is_set():
            raise is_gone(name, address)


def is_gone(name: str, address: str) -> LostPeerError:
    return LostPeerError(f"{name} at {address} is gone; see why in its log, and its pod's events")
