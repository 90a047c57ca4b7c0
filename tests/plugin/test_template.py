"""`template`: what Helm renders, for the cluster that is asked or for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from tests.plugin.fake_api import FakeApi, write_kubeconfig


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, helm: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster whose MPIJob is the training-operator's, under each Helm."""
    monkeypatch.setenv("HELM_BIN", str(helm))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    api.serve("v1", "MPIJob")
    return api


def _job(printed: str) -> dict[str, Any]:
    documents = [document for document in yaml.safe_load_all(printed) if document]
    is_hook = [("annotations" in document["metadata"]) for document in documents]
    (job,) = [
        document for document, hook in zip(documents, is_hook, strict=True) if document["kind"] == "MPIJob" and not hook
    ]
    return dict(job)


def test_rendering_is_the_one_for_the_cluster(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["template", "run1", "--set", "workers.replicas=3"])

    printed = capsys.readouterr()
    job = _job(printed.out)
    assert (code, printed.err) == (0, "")
    assert job["apiVersion"] == "kubeflow.org/v1"
    assert job["metadata"]["namespace"] == "team"
    assert job["metadata"]["labels"]["app.kubernetes.io/instance"] == "run1"
    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3


def test_offline_no_cluster_is_asked(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["template", "--offline"])

    job = _job(capsys.readouterr().out)
    assert (code, cluster.requests) == (0, [])
    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    assert job["metadata"]["namespace"] == "default"


def test_offline_needs_no_kubeconfig(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))

    assert cli.run(["template", "--offline", "-n", "mine"]) == 0
    assert _job(capsys.readouterr().out)["metadata"]["namespace"] == "mine"


def test_cluster_that_does_not_answer_is_no_guess(
    helm4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "https://127.0.0.1:1")))

    assert cli.run(["template"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("; check KUBECONFIG and --kube-context, or add --offline\n")


def test_wrong_values_are_refused_as_an_installation_would(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))

    assert cli.run(["template", "--offline", "--set", "workers.replica=3"]) == 2
    assert capsys.readouterr().err.startswith("distrain: workers.replica: there is no such value; did you mean")
