"""Test that the plugin predicts the pods that the operators create, for random values of every kind.

If the test finds a difference, it prints the seed of the job. random_request(seed) returns the values of this job.
"""

from __future__ import annotations

import pytest

from tests.cluster import made_pods

# For job.kind Plain the chart creates Jobs of Kubernetes, so the list contains `Job` and not `Plain`.
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
