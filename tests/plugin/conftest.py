"""Define the fixtures of the plugin's tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from distrain.release.transaction import SIGNALS
from tests.plugin.fake_api import FakeApi, running
from tests.plugin.objects import node
from tests.plugin.program import Outcome, Run, called, hold

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


@pytest.hookimpl(tryfirst=True)  # This hook runs before pytest deselects tests by their marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each command's tests with Helm 4, and every third test also with Helm 3. The full matrix runs all with both.

    Most tests use Helm in the same way, and start it several times. A test with the marker either_helm is left out
    here, as it already runs with one Helm only.
    """
    commands = [item for item in items if {"run", "helm"} <= _fixtures(item)]
    with_helm3 = [item for item in commands if "helm3" in item.name and not item.get_closest_marker("either_helm")]
    for number, item in enumerate(with_helm3):
        if number % 3:
            item.add_marker("full")


def _fixtures(item: pytest.Item) -> set[str]:
    return set(item.fixturenames) if isinstance(item, pytest.Function) else set()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the user's kubeconfig and Helm from the tests, and do not wait for a fake server to recover."""
    for name in HELM_SETS:
        # Set the variable first, so that pytest restores it even if a command sets it from a flag.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr("distrain.apiserver.connection.sleep", lambda seconds: None)
    monkeypatch.setattr("distrain.redact._known", set())
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running() as fake:
        yield fake


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore the signal handlers that a test's program has changed."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def run(helm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], signals: None) -> Run:
    """Run `distrain` with these arguments, under each Helm."""
    monkeypatch.setenv("HELM_BIN", str(helm))

    def run(*arguments: str) -> Outcome:
        return called(capsys, *arguments)

    return run


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Serve a cluster with mpi-operator and one node of 8 GPUs, and set KUBECONFIG for it."""
    api.serve_mpi_jobs()
    api.answers["/apis/kubeflow.org/v1"] = {"resources": [{"name": "mxjobs", "kind": "MXJob"}]}
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    hold(api, [node("a", gpu="8")])
    return api
