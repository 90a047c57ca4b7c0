"""Test the PodMonitor with which the Prometheus operator finds the workers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.chart.documents import REAL_CLUSTER, documents, of_kind, only
from tests.chart.rendering import Yaml, refusal, set_arguments, template

ON = "monitoring.podMonitor=true"
WITHOUT = ("--api-versions", "apiregistration.k8s.io/v1", "--api-versions", "kubeflow.org/v2beta1/MPIJob")


def test_no_podmonitor_unless_asked_for(helm: Path) -> None:
    found = documents(helm)

    assert of_kind(found, "PodMonitor") == []


def test_podmonitor_selects_the_pods_that_train(helm: Path) -> None:
    found = documents(helm, ON)
    spec = only(found, "PodMonitor")["spec"]
    replicas = of_kind(found, "MPIJob")[0]["spec"]["mpiReplicaSpecs"]

    assert selects(spec["selector"], replicas["Worker"]["template"]["metadata"]["labels"])
    assert not selects(spec["selector"], replicas["Launcher"]["template"]["metadata"]["labels"])


def test_podmonitor_leaves_the_test_alone(helm: Path) -> None:
    found = documents(helm, ON)
    selector = only(found, "PodMonitor")["spec"]["selector"]
    tested = of_kind(found, "MPIJob")[1]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]

    assert not selects(selector, tested["metadata"]["labels"])


def selects(selector: Yaml, labels: dict[str, str]) -> bool:
    (expression,) = selector["matchExpressions"]
    assert expression["operator"] == "In"
    matches: bool = selector["matchLabels"].items() <= labels.items()
    return matches and labels[expression["key"]] in expression["values"]


def test_workers_serve_the_port_that_is_asked(helm: Path) -> None:
    found = documents(helm, ON, "monitoring.port=9100")
    (endpoint,) = only(found, "PodMonitor")["spec"]["podMetricsEndpoints"]
    worker = of_kind(found, "MPIJob")[0]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]

    assert endpoint["port"] == "metrics"
    assert worker["ports"] == [{"name": "metrics", "containerPort": 9100}]


def test_port_of_a_sidecar_is_requested_once(helm: Path) -> None:
    found = documents(helm, ON)
    (endpoint,) = only(found, "PodMonitor")["spec"]["podMetricsEndpoints"]
    (relabeling,) = endpoint["relabelings"]
    worker = of_kind(found, "MPIJob")[0]["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]

    assert relabeling["action"] == "keep"
    assert relabeling["sourceLabels"] == ["__meta_kubernetes_pod_container_name"]
    assert re.fullmatch(relabeling["regex"], worker["name"])


def test_podmonitor_follows_the_values(helm: Path) -> None:
    values = ["monitoring.path=/m", "monitoring.interval=5s", "monitoring.labels.release=prometheus"]
    monitor = only(documents(helm, ON, *values), "PodMonitor")

    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]

    assert (endpoint["path"], endpoint["interval"]) == ("/m", "5s")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["metadata"]["labels"]["app.kubernetes.io/instance"] == "run1"


def test_cluster_without_the_operator_is_refused(helm: Path) -> None:
    words = refusal(helm, *WITHOUT, *set_arguments(ON))

    assert (
        "distrain: monitoring.podMonitor: this cluster does not serve PodMonitor v1; install the Prometheus operator "
        "(https://prometheus-operator.dev), or set it to false\n"
    ) in words
    assert template(helm, *REAL_CLUSTER, *set_arguments(ON)).returncode == 0
