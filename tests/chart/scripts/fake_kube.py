"""Serve a fake Kubernetes API over HTTPS on loopback, with the address variables and ServiceAccount files of a pod."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from lab.cluster.certificates import Authority
from tests.chart.rendering import CHART
from tests.chart.scripts import pods

Object = dict[str, Any]
# A function that gets a request's method, path with query, and body, and returns the answer's status and body.
Answer = Callable[[str, str, Object | None], tuple[int, Object | str]]


@dataclass
class Kube:
    """A fake API server, and the folder with the files of a ServiceAccount.

    A test sets the fake API server's answers, and reads the requests that it got.
    """

    folder: Path
    port: int
    answer: Answer
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    # The fake API cuts off this number of bytes at the end of each answer.
    cut: int = 0

    @property
    def account(self) -> Path:
        return self.folder / "account"

    def change(self, script: str, line: str, other: str) -> None:
        pods.change(self.folder / "bin" / script, line, other)

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(script, *arguments, **environment)
        output, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess(script, process.returncode, output, errors)

    def start(self, script: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        api = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}
        command = [sys.executable, str(self.folder / "bin" / script), f"--account={self.account}", *arguments]
        return subprocess.Popen(
            command,
            # The script must ignore a proxy in the environment.
            env={**os.environ, "HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "", **api, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Kube]:
    authority = Authority(folder / "pki")
    pair = authority.server("api", ["kubernetes"], ["127.0.0.1"])
    shutil.copytree(CHART / "files", folder / "bin")
    account = folder / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(authority.pair.certificate.read_bytes())
    (account / "token").write_text("a-token\n")
    (account / "namespace").write_text("team")
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    kube = Kube(folder, server.server_port, lambda *_: (404, status(404, "not found")))
    server.RequestHandlerClass = _handler(kube)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield kube
    finally:
        server.shutdown()
        server.server_close()


def status(code: int, message: str) -> Object:
    return {"kind": "Status", "message": message, "code": code}


def _handler(kube: Kube) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            kube.requests.append(f"{self.command} {self.path}")
            kube.headers.append(dict(self.headers))
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            code, answer = kube.answer(self.command, self.path, body)
            content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(content) + kube.cut))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
