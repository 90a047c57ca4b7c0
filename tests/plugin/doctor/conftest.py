"""Define the fixtures of doctor's tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distrain import cli
from tests.plugin.doctor.examining import LISTS, Doctor, Examination
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import deployment, namespace, node, pod

MPI = deployment("mpi-operator", "docker.io/mpioperator/mpi-operator:0.8.0")
TRAINING = deployment("training-operator", "localhost:5000/kubeflow/training-operator:v1-4485b0a")


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path, helm4: Path, monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Serve a cluster with two operators and one node of 8 GPUs, in which every user has all permissions."""
    monkeypatch.setenv("HELM_BIN", str(helm4))
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    api.serve_group("kubeflow.org", {"v2beta1": ["MPIJob"], "v1": ["PyTorchJob", "TFJob"]})
    api.answers |= dict(zip(LISTS, ([MPI, TRAINING], [], [namespace("team")], [node("a", gpu="8")]), strict=True))
    api.answers |= {"/api/v1/pods": [pod("p", on="a", gpu="3")], "/api/v1/namespaces/team": namespace("team")}
    return api


@pytest.fixture
def examine(cluster: FakeApi, capsys: pytest.CaptureFixture[str]) -> Doctor:
    def examine(*arguments: str) -> Examination:
        code = cli.run(["doctor", "-o", "json", *arguments])
        printed = capsys.readouterr()
        assert printed.err == ""
        return Examination(code, json.loads(printed.out))

    return examine
