"""Test how Prometheus finds the pods that serve metrics: through a PodMonitor or annotations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


KINDS_OF_PODS = {
    "MPIJob": ("mpiReplicaSpecs", {"Worker"}, ()),
    "PyTorchJob": ("pytorchReplicaSpecs", {"Worker"}, ("framework=pytorch",)),
    "MXJob": ("mxReplicaSpecs", {"Worker"}, ("framework=mxnet", "strategy=parameter-server")),
    "TFJob": ("tfReplicaSpecs", {"Chief", "Worker"}, ("strategy=parameter-server",)),
}


def templates(helm: Path, kind: str, *values: str) -> dict[str, Yaml]:
    """Return the pod template of each of the job's roles."""
    field, _, chosen = KINDS_OF_PODS[kind]
    [job, *_] = of_kind(documents(helm, *chosen, *values), kind)
    return {role: replica["template"] for role, replica in job["spec"][field].items()}


@pytest.mark.parametrize("kind", KINDS_OF_PODS)
def test_trainer_serves_metrics_on_the_port_of_its_pods(helm: Path, kind: str) -> None:
    _, serving, _ = KINDS_OF_PODS[kind]
    found = templates(helm, kind, "trainer.metrics=true", "monitoring.port=9100")

    containers = {role: template["spec"]["containers"][0] for role, template in found.items()}

    port = {"name": "metrics", "containerPort": 9100}
    assert {role for role, container in containers.items() if port in container.get("ports", [])} == serving
    programs = [str([*container["command"], *container["args"]]) for container in containers.values()]
    assert any("'--metrics-port=9100'" in program for program in programs)


def test_trainer_serves_nothing_unless_asked(helm: Path) -> None:
    found = templates(helm, "PyTorchJob", ON)

    assert not any("--metrics-port" in str(template) for template in found.values())


def test_command_gets_no_argument_of_the_trainer(helm: Path) -> None:
    worker = templates(helm, "PyTorchJob", "trainer.metrics=true", "command={/train}")["Worker"]

    assert "--metrics-port" not in str(worker)
    assert "ports" not in worker["spec"]["containers"][0]


def test_podmonitor_selects_the_chief_that_has_the_step_and_the_loss(helm: Path) -> None:
    chosen = KINDS_OF_PODS["TFJob"][2]
    labels = {role: template["metadata"]["labels"] for role, template in templates(helm, "TFJob").items()}

    def selected(*values: str) -> set[str]:
        selector = only(documents(helm, *chosen, ON, *values), "PodMonitor")["spec"]["selector"]
        return {role for role in labels if selects(selector, labels[role])}

    assert selected("trainer.metrics=true") == {"Chief", "Worker"}
    assert selected() == {"Worker"}


def test_annotations_say_where_the_metrics_are(helm: Path) -> None:
    values = ("monitoring.annotations=true", "monitoring.port=9100", "monitoring.path=/m")
    found = templates(helm, "MPIJob", *values)

    annotations = {role: template["metadata"]["annotations"] for role, template in found.items()}

    told = {"prometheus.io/scrape": "true", "prometheus.io/port": "9100", "prometheus.io/path": "/m"}
    assert annotations["Worker"].items() >= told.items()
    assert not annotations["Launcher"].keys() & told.keys()
    assert {"name": "metrics", "containerPort": 9100} in found["Worker"]["spec"]["containers"][0]["ports"]


def test_annotations_of_the_user_win(helm: Path) -> None:
    found = templates(helm, "MPIJob", "monitoring.annotations=true", r"podAnnotations.prometheus\.io/path=/mine")

    assert found["Worker"]["metadata"]["annotations"]["prometheus.io/path"] == "/mine"


def test_job_of_the_test_has_no_annotations(helm: Path) -> None:
    tested = of_kind(documents(helm, "monitoring.annotations=true"), "MPIJob")[1]

    assert "prometheus.io" not in str(tested)


def test_port_of_the_workers_ssh_is_refused(helm: Path) -> None:
    port = "monitoring.port=2222"

    words = refusal(helm, *set_arguments("trainer.metrics=true", port))

    assert (
        "distrain: monitoring.port: 2222 is also ssh.port, on which sshd listens in the workers; set one of the "
        "two to another port\n"
    ) in words
    # Neither of these jobs uses both ports: a PyTorchJob has no sshd, and a user's own program does not serve the
    # trainer's metrics.
    for more in ("framework=pytorch", "command={/train}"):
        assert template(helm, *set_arguments("trainer.metrics=true", port, more)).returncode == 0


def test_cluster_without_the_operator_is_refused(helm: Path) -> None:
    words = refusal(helm, *WITHOUT, *set_arguments(ON))

    assert (
        "distrain: monitoring.podMonitor: this cluster does not serve PodMonitor v1; install the Prometheus operator "
        "(https://prometheus-operator.dev), or set it to false\n"
    ) in words
    assert template(helm, *REAL_CLUSTER, *set_arguments(ON)).returncode == 0
