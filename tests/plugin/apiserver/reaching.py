"""Connect to a fake server through a kubeconfig."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Overrides, Target
from tests.plugin.fake_api import FakeApi, write_kubeconfig


def cluster_at(path: Path, overrides: Overrides | None = None) -> Cluster:
    return connect(Target(str(path), "fake", "team", overrides or Overrides()))


def trusting(api: FakeApi, folder: Path, **user: Any) -> Path:
    settings = {"certificate-authority": "tls.pem"}
    return write_kubeconfig(folder, api.url, cluster=settings, **user)


def base64_of(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
