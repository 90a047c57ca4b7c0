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
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the kubeconfig, or the Helm, of whoever runs it."""
    for name in HELM_SETS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running() as fake:
        yield fake
