"""Test that the plugin predicts the pods that the operators create, for random values of every kind.

A difference that the test finds is reported with a seed. From this seed, random_request computes the job's values.
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
