"""Test job.kind Plain in a cluster without Kubeflow operators."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from lab.cluster import client
from lab.cluster.operators import Operators
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import LAUNCHER_JOB, VALUES, Namespace, settings
from tests.cluster.training import MXNET, TENSORFLOW
from tests.matrix import one_of

OPERATORS = Operators(mpijob="", training=False)
WORKER_JOB = "jobs -l app.kubernetes.io/component=worker"
PLAIN = ["--set", "job.kind=Plain"]


def test_other_kinds_are_refused_with_what_to_do(namespace: Namespace, helm4: Path, digits_settings: list[str]) -> None:
    refused = namespace.helm(helm4, "install", "run1", str(CHART), *digits_settings)

    assert refused.returncode != 0
    assert "mpi-operator" in refused.stderr
    assert "job.kind=Plain" in refused.stderr.replace(": ", "=")


@pytest.mark.parametrize("framework", one_of([MXNET, TENSORFLOW]), ids=["mxnet", "tensorflow"])
def test_digits_are_learned_without_an_operator(
    namespace: Namespace, helm3: Path, digits_settings: list[str], framework: dict[str, str]
) -> None:
    chosen = [*digits_settings, *settings(framework), *PLAIN]

    installed = namespace.helm(helm3, "install", "run1", str(CHART), *chosen)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(LAUNCHER_JOB, seconds=600) == "Succeeded", namespace.story()
    assert namespace.accuracy() >= 0.95
    wait_until("the workers' end", lambda: namespace.outcome(WORKER_JOB) == "Succeeded", pause=1)


def test_openmpi_example_runs_its_settings(namespace: Namespace, helm4: Path) -> None:
    small = {**MXNET, "trainer.model": "mnist", "trainer.steps": 2, "trainer.logEvery": 1, "workers.replicas": 2}

    installed = namespace.helm(
        helm4, "install", "run1", str(CHART), "-f", str(VALUES / "vgg16-openmpi.yaml"), *settings(small)
    )

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(LAUNCHER_JOB, seconds=300) == "Succeeded", namespace.story()
    log = namespace.launcher_log()
    assert "total images/sec:" in log
    assert "JOB MAP" in log  # mpirun's --display-map prints this.


def test_failure_ends_the_workers_too(namespace: Namespace, helm3: Path, digits_settings: list[str]) -> None:
    wrong = settings({"data.uri": "s3://no-such-bucket/digits"})

    namespace.helm(helm3, "install", "run1", str(CHART), *digits_settings, *PLAIN, *wrong)

    assert namespace.wait_for_end(LAUNCHER_JOB, seconds=300) == "Failed", namespace.story()
    assert 'bucket "no-such-bucket"' in namespace.launcher_end()["message"]
    wait_until("the workers' end", lambda: namespace.outcome(WORKER_JOB) == "Failed", pause=1)


@pytest.mark.parametrize("helm", one_of(["helm4", "helm3"]), indirect=True)
def test_key_survives_an_upgrade_and_goes_with_the_release(
    namespace: Namespace, helm: Path, digits_settings: list[str]
) -> None:
    install = ["run1", str(CHART), *digits_settings, *PLAIN]
    namespace.helm(helm, "install", *install)
    wait_until("the key", lambda: "id_rsa" in _secret(namespace), pause=0.5)
    key = _secret(namespace)["id_rsa"]

    upgraded = namespace.helm(helm, "upgrade", *install, "--set", "podAnnotations.note=again,trainer.seed=2")

    assert upgraded.returncode == 0, upgraded.stderr
    assert base64.b64decode(key).startswith(b"-----BEGIN")
    assert _secret(namespace)["id_rsa"] == key
    releases = client.kubectl("-n", namespace.name, "get", "secrets", "-l", "owner=helm", "-o", "json")
    assert key not in releases
    namespace.helm(helm, "uninstall", "run1", "--wait")
    assert "run1-plain-ssh" not in client.kubectl("-n", namespace.name, "get", "secrets", "-o", "name")


def _secret(namespace: Namespace) -> dict[str, str]:
    found = json.loads(client.kubectl("-n", namespace.name, "get", "secret", "run1-plain-ssh", "-o", "json"))
    data: dict[str, str] = found.get("data", {})
    return data
