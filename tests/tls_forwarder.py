"""Serve TLS in front of a plain HTTP server. The system does not trust the certificate's authority."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.plugin.fake_api import make_certificate


@contextmanager
def tls_before(endpoint: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Forward TLS connections to an endpoint. Yield the https:// endpoint and the path of its certificate."""
    make_certificate(folder / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls")
    target = urlsplit(endpoint)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            # A client that does not trust the certificate aborts the TLS handshake.
            with contextlib.suppress(OSError), context.wrap_socket(self.request, server_side=True) as client:
                _forward(client, str(target.hostname), int(target.port or 80))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_address[1]}", folder / "tls.crt"
        server.shutdown()


def _forward(client: ssl.SSLSocket, host: str, port: int) -> None:
    """Copy bytes in both directions until one side closes its connection."""
    with socket.create_connection((host, port)) as upstream:
        back = threading.Thread(target=_copy, args=(upstream, client), daemon=True)
        back.start()
        _copy(client, upstream)
        back.join(timeout=10)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
