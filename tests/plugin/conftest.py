"""Define the fixtures of the plugin's tests."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distrain.release.transaction import SIGNALS
from lab.s3.server import Server
from tests.chart import served_helm
from tests.plugin.fake_api import FakeApi, running
from tests.plugin.objects import node
from tests.plugin.program import Outcome, Run, called, hold
from tests.plugin.report.records import BUCKET

# A shell script that acts as Helm. The script returns the values of a release from a file. If this file is missing,
# Helm says that the release does not exist.
HELM = """#!/bin/sh
[ -e {values} ] || {{ echo 'Error: release: not found' >&2; exit 1; }}
case $1 in
  status) echo '{{"info": {{"status": "deployed"}}, "version": 1}}' ;;
  get) cat {values} ;;
esac
"""
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


@pytest.hookimpl(tryfirst=True)  # This pytest hook must run before the hook that reads the marks of the tests.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each test of a command with only one version of Helm, because most commands use Helm in the same way.

    In the full matrix, every test runs with both versions of Helm.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents and {"run", "helm"} <= _fixtures(item):
            item.add_marker("either_helm")


def _fixtures(item: pytest.Item) -> set[str]:
    return set(item.fixturenames) if isinstance(item, pytest.Function) else set()


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the user's kubeconfig and Helm from the tests, and remove the pauses between retries.

    One process renders the chart for all tests (served_helm.py). In the full matrix, each command starts the real Helm
    instead.
    """
    if os.environ.get("FULL") != "1":
        monkeypatch.setattr("distrain.helm.processes._started", served_helm.started)
    for name in HELM_SETS:
        # Set the variable before deleting it, so that monkeypatch remembers that it was not set. If a command then sets
        # the variable from a flag, monkeypatch removes it again after the test.
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
    """Restore the signal handlers at the end of each test, because the program may change them."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def hidden_heap() -> Iterator[None]:
    """Hide the objects of earlier tests from the garbage collector.

    Otherwise, the processor time of a test would include long searches through these objects.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def run(helm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], signals: None) -> Run:
    """Return a function that runs `distrain` with these arguments, under each version of Helm."""
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


@pytest.fixture
def release(api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], object]:
    """Return a function that sets the values of every release. The fake Helm returns these values."""
    values, helm = tmp_path / "values.json", tmp_path / "helm"
    helm.write_text(HELM.format(values=values))
    helm.chmod(0o755)
    monkeypatch.setenv("HELM_BIN", str(helm))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    return lambda found: values.write_text(json.dumps(found))


@pytest.fixture
def s3(s3_server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], None]:
    """Set the environment variables for the S3 server's keys, and return a function that writes an object."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    client = s3_server.boto3_client()
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    # All tests use the same S3 server, so delete the records that other tests have written.
    for written in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=written["Key"])
    return lambda key, content: client.put_object(Bucket=BUCKET, Key=key, Body=content)
