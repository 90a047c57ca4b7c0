"""Run an OCI registry on loopback, with TLS and a login, for the packages of the chart and the plugin."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.builds.golang import binary
from lab.cluster.certificates import Authority
from lab.waiting import free_port, wait_for_port

ADDRESS = "127.0.0.1"
USER = "lab"


@dataclass(frozen=True)
class Registry:
    """The host and port of a registry, its certificate authority, and the password of USER."""

    host: str
    authority: Path
    password: str = field(repr=False)


@contextmanager
def serve(folder: Path) -> Iterator[Registry]:
    """Serve the packages in a folder, until the context ends."""
    port, password = free_port(), secrets.token_hex()
    authority = Authority(folder / "pki")
    config = folder / "config.yaml"
    config.write_text(json.dumps(_config(folder, port, authority, password)), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binary("registry"), "serve", config], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for_port(ADDRESS, port)
        yield Registry(f"{ADDRESS}:{port}", authority.pair.certificate, password)
    finally:
        process.terminate()
        process.wait()


def _config(folder: Path, port: int, authority: Authority, password: str) -> dict[str, object]:
    """Return the registry's settings. It reads YAML, and JSON is a form of YAML."""
    pair = authority.server("registry", ["localhost"], [ADDRESS])
    hashed = subprocess.run([binary("registry"), "hash"], input=password.encode(), capture_output=True, check=True)
    logins = folder / "logins"
    logins.write_text(f"{USER}:{hashed.stdout.decode()}", encoding="utf-8")
    return {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "packages")}},
        "auth": {"htpasswd": {"realm": "lab", "path": str(logins)}},
        "http": {
            "addr": f"{ADDRESS}:{port}",
            "secret": secrets.token_hex(),
            "tls": {"certificate": str(pair.certificate), "key": str(pair.key)},
        },
    }
