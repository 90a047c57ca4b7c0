"""Provide values for the tests of `cluster`, and functions that read its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from lab.paths import REPOSITORY
from tests.plugin.program import Outcome

Make = Callable[..., Outcome]
PROFILES = REPOSITORY / "values" / "profiles"
TOLERATIONS = "tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]"
# Values for two workers with eight GPUs each. A worker fills a whole node.
WHOLE = f"workers: {{replicas: 2, gpus: 8, cpu: 48, memory: 200Gi, {TOLERATIONS}}}\n"
# Values for four workers with two GPUs each. Several workers share a node.
PARTS = f"workers: {{replicas: 4, gpus: 2, cpu: 8, memory: 32Gi, {TOLERATIONS}}}\n"
PRICES = "p4d.24xlarge: 30\ng5.48xlarge: 16.29\nm6i.xlarge: 0.192\n"


def workers(**values: Any) -> str:
    """Return values for workers: those of WHOLE, with some of them replaced."""
    return yaml.safe_dump({"workers": {**yaml.safe_load(WHOLE)["workers"], **values}})


def config_of(outcome: Outcome) -> Any:
    """Return eksctl's ClusterConfig from the output of `cluster`."""
    assert outcome.code == 0, outcome.err
    return yaml.safe_load(outcome.out)


def gpu_group(outcome: Outcome) -> dict[str, Any]:
    return config_of(outcome)["managedNodeGroups"][1]


def system_group(outcome: Outcome) -> dict[str, Any]:
    return config_of(outcome)["managedNodeGroups"][0]
