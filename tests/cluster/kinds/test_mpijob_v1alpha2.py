"""Test MPIJob v1alpha2 with mpi-operator 0.3.0.

The CRD of mpi-operator 0.3.0 has three versions, but its controller handles only v1alpha2.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster.operators import Operators
from lab.paths import CHART
from tests.cluster import made_pods
from tests.cluster.testbed import Namespace

OPERATORS = Operators(mpijob="v1alpha2", training=False)
POD_SECURITY = "baseline"
# v1alpha2 is served only by mpi-operator 0.3 and older, so these tests run only in the full matrix. MPIJobs of v1 and
# v2beta1 are trained in `make test`.
pytestmark = pytest.mark.full


def test_version_is_not_guessed(namespace: Namespace, helm4: Path, digits_settings: list[str]) -> None:
    refused = namespace.helm(helm4, "install", "run1", str(CHART), *digits_settings)

    assert refused.returncode != 0
    assert "job.apiVersion" in refused.stderr
    assert namespace.get("mpijobs") == []


def test_digits_are_learned(namespace: Namespace, helm4: Path, digits_settings: list[str]) -> None:
    version = ["--set", "job.apiVersion=v1alpha2"]

    installed = namespace.helm(helm4, "install", "run1", str(CHART), *digits_settings, *version)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end("mpijobs.v1alpha2.kubeflow.org", seconds=180) == "Succeeded", namespace.story()
    assert namespace.accuracy() >= 0.95


def test_pods_are_as_the_plugin_predicts(pod_classes: None) -> None:
    kinds = {("kubeflow.org/v1alpha2", "MPIJob")}

    differences = list(made_pods.differences(kinds, 12))

    assert differences == []
