"""Write kubeconfig files for the cluster's components and its users."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml

from lab.cluster.certificates import Pair


def write(path: Path, server: str, authority: Pair, client: Pair) -> Path:
    """Write a kubeconfig that contains the certificates, so that the file can be copied to another machine."""
    user = {"client-certificate-data": _base64(client.certificate), "client-key-data": _base64(client.key)}
    cluster = {"server": server, "certificate-authority-data": _base64(authority.certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "distrain-lab", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "distrain-lab", "context": {"cluster": "distrain-lab", "user": "user"}}],
        "current-context": "distrain-lab",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
