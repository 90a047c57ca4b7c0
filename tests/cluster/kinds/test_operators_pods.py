"""Test that the plugin predicts the pods that the operators create, for random values of every kind.

Each difference that the test reports contains a seed. The function random_request returns the values for a seed.
"""

from __future__ import annotations

import pytest

from tests.cluster import made_pods

# The chart renders job.kind Plain as Jobs of Kubernetes, so this list contains no kind `Plain`.
KINDS = {
    ("kubeflow.org/v2beta1", "MPIJob"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("kubeflow.org/v1", "TFJob"),
    ("kubeflow.org/v1", "MXJob"),
    ("batch/v1", "Job"),
}


@pytest.mark.parametrize("count", [40, pytest.param(500, marks=pytest.mark.full)])
def test_pods_are_as_the_plugin_predicts(pod_classes: None, count: int) -> None:
    differences = list(made_pods.differences(KINDS, count))

    assert differences == []
