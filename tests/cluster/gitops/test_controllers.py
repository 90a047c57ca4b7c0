"""Test how the controllers' CRDs get into a cluster, with the real kubectl and an API server of a few lines."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import client
from lab.gitops import controllers

API = "/apis/apiextensions.k8s.io/v1"
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "runs.example.com"},
}
KIND = {
    "name": "customresourcedefinitions",
    "singularName": "",
    "namespaced": False,
    "kind": "CustomResourceDefinition",
    "verbs": ["get"],
}
GROUP = {
    "name": "apiextensions.k8s.io",
    "versions": [{"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}],
    "preferredVersion": {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"},
}


class SlowServer(ThreadingHTTPServer):
    """An API server that establishes a CRD only when it has been read twice; until then it has no conditions."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.reads = 0

    def answer(self, path: str) -> dict[str, Any] | None:
        """Return what lies at a path of the API, or None."""
        lists = {
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [GROUP]},
            API: {"kind": "APIResourceList", "groupVersion": "apiextensions.k8s.io/v1", "resources": [KIND]},
        }
        return self._crd() if path.startswith(f"{API}/customresourcedefinitions/") else lists.get(path)

    def _crd(self) -> dict[str, Any]:
        self.reads += 1
        conditions = [{"type": "Established", "status": "True"}] if self.reads > 2 else None
        return {**CRD, "status": {"conditions": conditions}}


class _Answers(BaseHTTPRequestHandler):
    server: SlowServer

    def do_GET(self) -> None:
        found = self.server.answer(self.path.partition("?")[0])
        body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowServer]:
    with SlowServer() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        kubeconfig = tmp_path / "kubeconfig"
        address = {"server": f"http://127.0.0.1:{running.server_port}"}
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": "slow", "cluster": address}],
                    "contexts": [{"name": "slow", "context": {"cluster": "slow"}}],
                    "current-context": "slow",
                }
            )
        )
        monkeypatch.setattr(client, "KUBECONFIG", kubeconfig)
        monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))
        yield running
        running.shutdown()


def test_crds_without_conditions_are_waited_for(server: SlowServer, tmp_path: Path) -> None:
    crd = tmp_path / "crd.yaml"
    crd.write_text(yaml.safe_dump(CRD))

    controllers.wait_for_crds([f"--filename={crd}"])

    assert server.reads == 3
