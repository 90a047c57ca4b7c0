"""Run an OCI registry with TLS and a login, for the packages of the chart and the plugin."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.builds.golang import binary
from lab.cluster import namespaces
from lab.cluster.certificates import Authority
from lab.gitops import controllers
from lab.waiting import free_port, wait_for_port

ADDRESS = "127.0.0.1"
# The registry uses this port in the lab's network namespace.
PORT = 7443
NAME = "registry"
USER = "lab"


@dataclass(frozen=True)
class Registry:
    """A registry: its address and port, its certificate authority, and the password of USER."""

    endpoint: tuple[str, int]
    authority: Path
    password: str = field(repr=False)

    @property
    def host(self) -> str:
        return f"{self.endpoint[0]}:{self.endpoint[1]}"


@contextmanager
def serve(folder: Path) -> Iterator[Registry]:
    """Serve the packages in a folder on loopback while the block runs."""
    registry, command = _configured(folder, ADDRESS, free_port())
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(*registry.endpoint)
        yield registry
    finally:
        process.terminate()
        process.wait()


@contextmanager
def serve_on_lab(folder: Path) -> Iterator[Registry]:
    """Serve the packages in a folder in the lab's network namespace while the block runs."""
    registry, command = _configured(folder, namespaces.NODE_ADDRESS, PORT)
    controllers.start(NAME, command, {}, PORT)
    try:
        yield registry
    finally:
        controllers.stop(NAME)


@contextmanager
def serve_plain_on_lab(folder: Path) -> Iterator[Registry]:
    """Serve images to the lab's container runtime while the block runs. On loopback it needs no TLS."""
    registry, command = _configured(folder, "0.0.0.0", PORT, has_tls=False)
    controllers.start(NAME, command, {}, PORT)
    try:
        yield Registry((ADDRESS, PORT), registry.authority, registry.password)
    finally:
        controllers.stop(NAME)


def _configured(folder: Path, address: str, port: int, *, has_tls: bool = True) -> tuple[Registry, list[str | Path]]:
    """Write the registry's settings. Return the registry, and the command that serves it."""
    password, authority, config = secrets.token_hex(), Authority(folder / "pki"), folder / "config.yaml"
    settings = _config(folder, (address, port), authority, password)
    if not has_tls:
        settings["http"] = {"addr": f"{address}:{port}", "secret": secrets.token_hex()}
    config.write_text(json.dumps(settings), encoding="utf-8")
    return Registry((address, port), authority.pair.certificate, password), [binary("registry"), "serve", config]


def _config(folder: Path, endpoint: tuple[str, int], authority: Authority, password: str) -> dict[str, object]:
    """Return the registry's settings as JSON. The registry reads YAML, and JSON is valid YAML."""
    pair = authority.server("registry", ["localhost"], [endpoint[0]])
    hashed = subprocess.run([binary("registry"), "hash"], input=password.encode(), capture_output=True, check=True)
    logins = folder / "logins"
    logins.write_text(f"{USER}:{hashed.stdout.decode()}", encoding="utf-8")
    return {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "packages")}},
        "auth": {"htpasswd": {"realm": "lab", "path": str(logins)}},
        "http": {
            "addr": f"{endpoint[0]}:{endpoint[1]}",
            "secret": secrets.token_hex(),
            "tls": {"certificate": str(pair.certificate), "key": str(pair.key)},
        },
    }
