"""Test MPIJob v1 in a cluster where training-operator, not mpi-operator, serves MPIJob."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.builds import images
from lab.cluster.operators import Operators
from lab.paths import CHART
from tests.cluster import made_pods
from tests.cluster.testbed import Namespace, settings
from tests.matrix import one_of

OPERATORS = Operators(mpijob="v1")
# `restricted` refuses the init container with which the operator copies kubectl into the launcher's pod.
POD_SECURITY = "baseline"


# MXNet starts fastest.
@pytest.mark.parametrize("framework", one_of(sorted(images.FRAMEWORKS)))
def test_digits_are_learned_through_kubectl_exec(
    namespace: Namespace, helm4: Path, digits_settings: list[str], all_images: None, framework: str
) -> None:
    chosen = {"framework": framework, "job.kind": "MPIJob", "image.repository": f"distrain/{framework}"}

    installed = namespace.helm(helm4, "install", "run1", str(CHART), *digits_settings, *settings(chosen))

    assert installed.returncode == 0, installed.stderr
    assert namespace.get("mpijobs")[0]["apiVersion"] == "kubeflow.org/v1"
    assert namespace.wait_for_end(seconds=180) == "Succeeded", namespace.story()
    assert namespace.accuracy() >= 0.95
    # Only the launcher may use the API: it runs commands in its workers' pods.
    workers = [pod for pod in namespace.get("pods") if pod["metadata"]["name"].endswith(("-worker-0", "-worker-1"))]
    assert all(pod["spec"]["automountServiceAccountToken"] is False for pod in workers)


def test_wrong_data_fails_the_job_with_one_line(namespace: Namespace, helm3: Path, digits_settings: list[str]) -> None:
    wrong = settings({"data.uri": "s3://no-such-bucket/digits"})

    installed = namespace.helm(helm3, "install", "run1", str(CHART), *digits_settings, *wrong)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(seconds=120) == "Failed", namespace.story()
    assert 'bucket "no-such-bucket"' in namespace.launcher_end()["message"]


def test_pods_are_as_the_plugin_predicts(pod_classes: None) -> None:
    kinds = {("kubeflow.org/v1", "MPIJob")}

    differences = list(made_pods.differences(kinds, 12))

    assert differences == []
