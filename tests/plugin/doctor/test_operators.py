"""Test what `doctor` prints about operators: which of them run, their versions, and the kinds that they serve."""

from __future__ import annotations

import pytest

from tests.plugin.doctor.examining import LISTS, Doctor
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, deployment


def test_cluster_without_operators_runs_plain_jobs(cluster: FakeApi, examine: Doctor) -> None:
    del cluster.answers["/apis/kubeflow.org"]

    found = examine()

    assert (found.code, found.answer["jobs"]) == (0, ["Plain"])
    assert found["mpi-operator"]["state"] == "absent"
    assert found["mpi-operator"]["next"].startswith("needed only for MPIJob: install 0.4.0 or newer")


def test_two_operators_are_told_apart_with_their_versions(examine: Doctor) -> None:
    found = examine()

    assert found.says("mpi-operator") == ("ok", "0.8.0, serves MPIJob v2beta1")
    assert found.says("training-operator") == ("ok", "v1-4485b0a, serves PyTorchJob v1, TFJob v1")
    assert found.answer["jobs"] == ["MPIJob", "PyTorchJob", "TFJob", "Plain"]


def test_mpijob_v1_is_the_training_operators(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve("v1", "MPIJob", "PyTorchJob")

    found = examine()

    assert found["mpi-operator"]["state"] == "absent"
    assert found.says("training-operator") == ("ok", "v1-4485b0a, serves PyTorchJob v1, MPIJob v1")
    assert found.says("MPIJob") == ("ok", "v1")


def test_of_several_versions_under_one_crd_none_is_guessed(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_group("kubeflow.org", {version: ["MPIJob"] for version in ("v1alpha2", "v1", "v2beta1")})

    found = examine()["MPIJob"]

    assert (found["state"], found["details"]) == ("unknown", {"versions": ["v2beta1", "v1", "v1alpha2"]})
    assert found["found"] == "v2beta1, v1, v1alpha2 under one CRD, and the operator runs only one of them"
    assert found["next"] == "set job.apiVersion to the version that the operator's image runs"


@pytest.mark.parametrize(
    ("deployments", "state", "words"),
    [
        pytest.param(
            [deployment("mpi-operator", "mpi-operator:0.8.0", ready=0)],
            "missing",
            "0.8.0, serves MPIJob v2beta1, but no pod of Deployment mpi-operator in namespace system is ready",
            id="not-ready",
        ),
        pytest.param(
            [deployment("web", "nginx:1")],
            "unknown",
            "serves MPIJob v2beta1, but no Deployment of all namespaces runs mpi-operator",
            id="crd-alone",
        ),
        pytest.param(
            [deployment("mpi", "example.org:5000/mirror/mpi-operator@sha256:0123456789abcdef")],
            "ok",
            "sha256:0123456789ab, serves MPIJob v2beta1",
            id="digest",
        ),
    ],
)
def test_operator_that_does_not_run_is_reported(
    cluster: FakeApi, examine: Doctor, deployments: list[Object], state: str, words: str
) -> None:
    cluster.answers[LISTS[0]] = deployments

    found = examine()

    assert found.says("mpi-operator") == (state, words)
    assert found["MPIJob"]["state"] == state


def test_gang_schedulers_and_monitoring_are_found(cluster: FakeApi, examine: Doctor) -> None:
    cluster.serve_group("kueue.x-k8s.io", {"v1beta1": ["LocalQueue"]})
    cluster.serve_group("scheduling.x-k8s.io", {"v1alpha1": ["PodGroup"]})
    cluster.serve_group("scheduling.volcano.sh", {"v1beta1": ["PodGroup"]})
    cluster.serve_group("monitoring.coreos.com", {"v1": ["PodMonitor"]})
    images = ["kueue/kueue:v0.13.1", "scheduler-plugins/kube-scheduler:v0.33.5", "volcanosh/vc-scheduler:v1.12.0"]
    images.append("quay.io/prometheus-operator/prometheus-operator:v0.80.0")
    cluster.answers[LISTS[0]] = [deployment(f"d{number}", image) for number, image in enumerate(images)]

    found = examine()

    names = ("kueue", "scheduler-plugins", "volcano", "prometheus-operator")
    assert [found[name]["details"]["version"] for name in names] == ["v0.13.1", "v0.33.5", "v1.12.0", "v0.80.0"]
