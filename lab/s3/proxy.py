"""Run a proxy in front of an S3 server. The proxy can delay, cut, stall and refuse requests.

The proxy is a Go program in lab/builds/go/s3-proxy. Its file fault.go lists the faults.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.builds import golang
from lab.waiting import free_port, wait_for_port

HOST = "127.0.0.1"
# The value of a fault's parameter. fault.go defines the parameters.
Fault = float | str | bool


@dataclass
class Proxy:
    """A proxy. `endpoint` is the proxy's S3 URL. `control` is the URL at which faults are set."""

    endpoint: str
    control: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, upstream: str) -> Proxy:
        """Return a proxy in front of an S3 server, without starting it. The proxy uses free ports on loopback."""
        listen, control = (f"{HOST}:{free_port()}" for _ in range(2))
        program = str(golang.binary("s3-proxy"))
        options = ["--listen", listen, "--control", control, "--upstream", upstream]
        return cls(f"http://{listen}", f"http://{control}", [program, *options])

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for url in (self.control, self.endpoint):
            wait_for_port(HOST, int(url.rpartition(":")[2]))

    def stop(self) -> None:
        """Stop the proxy. New connections to it are then refused."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=10)
            self.process = None

    def set(self, **fault: Fault) -> None:
        """Inject this fault into all requests from now on. Without arguments, stop injecting faults."""
        self._ask("PUT", fault)

    def faulted(self) -> int:
        """Return how many requests the fault has hit since it was set."""
        return self._ask("GET")["faulted"]

    @contextmanager
    def fault(self, **fault: Fault) -> Iterator[None]:
        self.set(**fault)
        try:
            yield
        finally:
            self.set()

    def _ask(self, method: str, fault: dict[str, Fault] | None = None) -> dict[str, int]:
        data = None if fault is None else json.dumps(fault).encode()
        with urllib.request.urlopen(urllib.request.Request(self.control, data, method=method)) as answer:
            told: dict[str, int] = json.load(answer)
        return told


@contextmanager
def proxy_before(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy.of(upstream)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
