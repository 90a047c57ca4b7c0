"""Fixtures of the plugin's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.fake_api import FakeApi, running

HELM_SETS = (
    "HELM_BIN",
    "HELM_NAMESPACE",
    "HELM_KUBECONTEXT",
    "HELM_PLUGIN_NAME",
    "HELM_KUBEAPISERVER",
    "HELM_KUBEASGROUPS",
    "HELM_KUBEASUSER",
    "HELM_KUBECAFILE",
    "HELM_KUBEINSECURE_SKIP_TLS_VERIFY",
    "HELM_KUBETLS_SERVER_NAME",
    "HELM_KUBETOKEN",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the kubeconfig, or the Helm, of whoever runs it, nor waits for a fake server to recover."""
    for name in HELM_SETS:
        # Set first: so that what a flag of ours puts there goes with the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr("distrain.connection.sleep", lambda seconds: None)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running() as fake:
        yield fake
