"""Test that `template` prints the objects that Helm renders, with and without a cluster."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from lab.paths import CHART
from tests.plugin.fake_api import FakeApi, write_kubeconfig
from tests.plugin.objects import node


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, helm: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Serve a cluster with the training-operator's MPIJob, and run the tests with each version of Helm."""
    monkeypatch.setenv("HELM_BIN", str(helm))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    api.serve("v1", "MPIJob")
    return api


def _job(printed: str) -> dict[str, Any]:
    documents = [document for document in yaml.safe_load_all(printed) if document]
    is_hook = [("helm.sh/hook" in document["metadata"].get("annotations", {})) for document in documents]
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


def test_values_that_derive_cannot_edit_are_completed_nevertheless(
    helm4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))
    values = tmp_path / "values.yaml"
    values.write_text("? workers\n: cpu: 2\ngpus: 16\n")

    assert cli.run(["template", "--offline", "--node-gpus", "8", "-f", str(values)]) == 0

    worker = _job(capsys.readouterr().out)["spec"]["mpiReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert (worker["replicas"], limits["nvidia.com/gpu"], requests["cpu"]) == (2, 8, "2")


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


def test_total_is_spread_over_the_clusters_nodes_first(
    cluster: FakeApi, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.answers |= {"/api/v1/nodes": [node("a", gpu="4"), node("b", gpu="4")], "/api/v1/pods": []}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"gpus: 8\nworkers: {evictAfterSeconds: null}")))

    code = cli.run(["template", "-f", "-", "--set", "trainer.model=vgg16"])

    worker = _job(capsys.readouterr().out)["spec"]["mpiReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    assert (code, worker["replicas"], container["resources"]["limits"]["nvidia.com/gpu"]) == (0, 2, 4)
    # The user has set tolerations to null, which removes the chart's default tolerations. After `derive`, they must
    # still be gone.
    keys = [toleration["key"] for toleration in worker["template"]["spec"].get("tolerations", [])]
    assert "node.kubernetes.io/not-ready" not in keys


@pytest.mark.parametrize(
    ("arguments", "replicas"),
    [
        pytest.param(["--set", "gpus=12,workers.replicas=6,workers.gpus=2"], 6, id="explicit"),
        pytest.param(["--set", "workers.replicas=5"], 5, id="no-total"),
        pytest.param(["--set", "gpus=12", "--node-gpus", "4"], 3, id="stated-nodes"),
        pytest.param(["--set", "gpus=12,workers.gpus=1"], 12, id="nothing-open"),
    ],
)
def test_offline_size_comes_from_the_arguments_alone(
    helm4: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    replicas: int,
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))

    assert cli.run(["template", "--offline", *arguments]) == 0
    assert _job(capsys.readouterr().out)["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == replicas


def test_explicit_values_are_rendered_as_helm_alone_renders_them(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))
    flags = ["--set", "gpus=12,workers.replicas=6,workers.gpus=2,workers.shm=2Gi"]

    assert cli.run(["template", "run1", "--offline", *flags]) == 0
    alone = subprocess.run([helm4, "template", "run1", CHART, *flags], capture_output=True, text=True, check=True)
    assert capsys.readouterr().out.rstrip("\n") == alone.stdout.rstrip("\n")


def test_total_that_offline_cannot_spread_is_refused(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))

    assert cli.run(["template", "--offline", "--set", "gpus=12"]) == 2
    assert capsys.readouterr().err.endswith("; add --node-gpus N, the number of GPUs per node, or --snapshot FILE\n")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param("templates/nope.yaml", id="none-of-the-chart"),
        pytest.param("mpijob.yaml", id="without-folder"),
        pytest.param("templates/pytorchjob.yaml", id="another-kind"),
    ],
)
def test_file_of_which_nothing_is_created_is_refused_with_those_that_there_are(
    cluster: FakeApi, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    code = cli.run(["template", "--offline", "--no-hooks", "--show-only", file])

    files = "templates/mpijob.yaml, templates/scripts-configmap.yaml, templates/serviceaccount.yaml"
    words = f"distrain: --show-only: the chart renders nothing from {file}; name one of {files}"
    assert (code, capsys.readouterr().err.splitlines()[0]) == (2, words)
