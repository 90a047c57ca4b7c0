"""Put a TCP proxy on loopback in front of an API server, to cut a client's connections at a chosen moment."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

SIZE = 1 << 16
# The proxy forwards TLS unchanged, so clients must expect this host name in the API server's certificate.
SERVER_NAME = "kubernetes"


class ApiProxy:
    """A TCP proxy that counts the pieces of data that clients send.

    A piece is the data that one call of recv() returns. In most cases this is one request, or one step of the TLS
    handshake. `at(number, act)` makes the proxy call `act` before it forwards piece `number`. If `answered` is true,
    the proxy calls `act` after the API server has answered the piece, and drops the answer. `is_reached` tells whether
    the proxy has received the piece with this number.
    """

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.pieces = 0
        self._upstream = upstream
        self._lock = threading.Lock()
        self._moment, self._act, self._answered = 0, lambda: None, False
        self._drops = self._is_away = False
        self.is_reached = False
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = self._listen(0)
        self.port = int(self._listener.getsockname()[1])

    def at(self, number: int, act: Callable[[], None], *, answered: bool = False) -> None:
        self.is_reached = False
        self._moment, self._act, self._answered = number, act, answered

    def go_away(self) -> None:
        """Cut all connections, and refuse new ones."""
        with self._lock:
            self._is_away = True
            for one in (self._listener, *(one for pair in self._pairs for one in pair)):
                _close(one)
            self._pairs.clear()

    def come_back(self) -> None:
        with self._lock:
            if self._is_away:
                self._is_away = self._drops = False
                self._listener = self._listen(self.port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._upstream)
                with self._lock:
                    self._pairs.add((client, server))
                for target in (self._requests, self._answers):
                    threading.Thread(target=target, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        for piece in _pieces(client, server):
            with self._lock:
                self.pieces += 1
                is_moment = self.pieces == self._moment
                self.is_reached |= is_moment
            if is_moment and not self._answered:
                self._act()
            self._drops |= is_moment and self._answered
            with contextlib.suppress(OSError):
                server.sendall(piece)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        for piece in _pieces(server, client):
            if self._drops:
                self._act()
                return
            with contextlib.suppress(OSError):
                client.sendall(piece)


@contextmanager
def before(kubeconfig: Path, folder: Path) -> Iterator[tuple[ApiProxy, Path]]:
    """Yield a proxy in front of the kubeconfig's API server, and a kubeconfig for the proxy."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    proxy = ApiProxy((host, int(port)))
    cluster |= {"server": f"https://127.0.0.1:{proxy.port}", "tls-server-name": SERVER_NAME}
    path = folder / "kubeconfig"
    path.touch(0o600)
    path.write_text(yaml.safe_dump(config))
    try:
        yield proxy, path
    finally:
        proxy.go_away()


def _pieces(source: socket.socket, other: socket.socket) -> Iterator[bytes]:
    """Yield each piece of data that `source` sends.

    Close both sockets after `source` has closed its connection.
    """
    with contextlib.suppress(OSError):
        while piece := source.recv(SIZE):
            yield piece
    for one in (source, other):
        _close(one)


def _close(one: socket.socket) -> None:
    # Without shutdown(), a thread that waits in accept() or recv() on this socket would not wake up.
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
