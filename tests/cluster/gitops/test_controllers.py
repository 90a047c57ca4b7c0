"""Test waiting for new CRDs, with the real kubectl and a fake API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import client
from lab.gitops import controllers
from tests.plugin.fake_api import running

GROUP = "apiextensions.k8s.io"
VERSION = {"groupVersion": f"{GROUP}/v1", "version": "v1"}
PLURAL = "customresourcedefinitions"
KIND = {"name": PLURAL, "singularName": "", "namespaced": False, "kind": "CustomResourceDefinition", "verbs": ["get"]}
PATH = f"/apis/{GROUP}/v1/{PLURAL}/runs.example.com"
CRD: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": KIND["kind"], "metadata": {"name": "runs.example.com"}}
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def test_crds_without_conditions_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crd = tmp_path / "crd.yaml"
    crd.write_text(yaml.safe_dump(CRD))
    groups = [{"name": GROUP, "versions": [VERSION], "preferredVersion": VERSION}]
    reads = []

    def without_conditions_twice(path: str, status: int, body: bytes) -> tuple[int, bytes]:
        if path != PATH:
            return status, body
        reads.append(path)
        return status, body if len(reads) > 2 else json.dumps({**CRD, "status": {"conditions": None}}).encode()

    with running() as api:
        api.answers |= {
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups},
            f"/apis/{GROUP}/v1": {"kind": "APIResourceList", "groupVersion": f"{GROUP}/v1", "resources": [KIND]},
            PATH: {**CRD, "status": ESTABLISHED},
        }
        api.spoil = without_conditions_twice
        monkeypatch.setattr(client, "KUBECONFIG", api.kubeconfig(tmp_path))
        monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "cache"))

        controllers.wait_for_crds([f"--filename={crd}"])

    assert len(reads) == 3
