"""Test every kind of job with the real training-operator.

A probe program checks everything that a framework would need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.paths import CHART
from tests.cluster.testbed import PROBE_VALUES, SECRET, VALUES, Namespace, settings

# `restricted` refuses the init container that training-operator adds to a Master/Worker PyTorchJob.
POD_SECURITY = "baseline"

SMALL = {
    "s3.secretName": SECRET,
    "workers.cpu": "50m",
    "workers.memory": "200Mi",
    "workers.shm": "64Mi",
    "env[0].name": "PROBE_WORD",
    "env[0].value": "hello",
}
TORCHRUN = {"env[1].name": "PATH", "env[1].value": "/probe:/opt/venv/bin:/usr/bin:/bin"}


def _run(namespace: Namespace, helm: Path, file: str, kind: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the job of a values file with the probe as its program. Return the probe's output in each process."""
    namespace.put_probe()
    arguments = ["-f", str(VALUES / file), *settings({**PROBE_VALUES, **SMALL, **values})]
    installed = namespace.helm(helm, "install", "run1", str(CHART), *arguments)
    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(kind, seconds=120) == "Succeeded", namespace.story()
    reports = namespace.reports()
    for report in reports:
        assert (report["uid"], report["root_is_writable"], report["token"]) == (1000, False, False)
        assert report["env"]["PROBE_WORD"] == "hello"
    return sorted(reports, key=lambda report: (report["role"], report["rank"]))


def test_elastic_pytorchjob_brings_its_workers_together(namespace: Namespace, helm4: Path) -> None:
    nodes = {"workers.replicas": 3, "workers.gpus": 2, "env[2].name": "PROBE_NODES", "env[2].value": "3"}

    reports = _run(namespace, helm4, "mnist-pytorch-elastic.yaml", "pytorchjobs", {**TORCHRUN, **nodes})

    # An elastic PyTorchJob succeeds when its first worker has succeeded. The operator may then delete the pods of the
    # other workers before they have printed a report.
    ranks = {report["rank"] for report in reports}
    assert ranks <= set(range(6))
    assert len(ranks) >= 2
    assert {report["size"] for report in reports} == {6}
    assert {report["shm"] for report in reports} == {64 << 20}


def test_master_and_workers_of_a_pytorchjob_meet(namespace: Namespace, helm3: Path) -> None:
    reports = _run(namespace, helm3, "mnist-pytorch.yaml", "pytorchjobs", {"workers.gpus": 1})

    assert 0 in [report["rank"] for report in reports]
    assert {report["size"] for report in reports} == {3}
    assert all(report["host"].endswith(("-master-0", "-worker-0", "-worker-1")) for report in reports)


def test_scheduler_servers_and_workers_of_an_mxjob_meet(namespace: Namespace, helm4: Path) -> None:
    values = {"workers.replicas": 2, "servers.replicas": 2, "workers.gpus": 1, "servers.cpu": "50m"}

    reports = _run(namespace, helm4, "mnist-mxnet-ps.yaml", "mxjobs", values)

    # Each process reports that all five pods have connected. Some reports may be missing: when the MXJob's scheduler
    # pod has ended, the operator deletes the pods that still run.
    assert {report["size"] for report in reports} == {5}
    assert {report["role"] for report in reports} <= {"scheduler", "server", "worker"}


def test_chief_servers_and_workers_of_a_tfjob_meet(namespace: Namespace, helm3: Path) -> None:
    values = {"framework": "tensorflow", "strategy": "parameter-server", "workers.replicas": 2, "servers.replicas": 2}

    reports = _run(namespace, helm3, "vgg16.yaml", "tfjobs", {**values, "workers.gpus": 1, "servers.cpu": "50m"})

    assert {report["size"] for report in reports} == {5}
    assert ("chief", 0) in [(report["role"], report["rank"]) for report in reports]
    # A parameter server never ends by itself, so the operator must end its pod.
    namespace.wait_for_no_running_pods()
