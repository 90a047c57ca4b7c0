"""Test gang scheduling with the coscheduling plugin of scheduler-plugins: it places all pods of a job, or none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.operators import Operators
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster import made_pods
from tests.cluster.testbed import Namespace, settings
from tests.matrix import one_of

OPERATORS = Operators(gang=True)
GANG = {"gang.scheduler": "scheduler-plugins"}
# The values that select a kind, and kubectl's name for its resources.
Kind = tuple[dict[str, str], str]
MPIJOB: Kind = ({}, "mpijobs")
PLAIN: Kind = ({"job.kind": "Plain"}, "jobs -l app.kubernetes.io/component=launcher")
SECONDS_TO_PLACE = 15


@pytest.mark.parametrize("kind", one_of([MPIJOB, PLAIN]), ids=["mpi-operator", "plain"])
def test_gang_that_does_not_fit_leaves_no_pod_bound(
    namespace: Namespace, helm4: Path, digits_settings: list[str], kind: Kind
) -> None:
    values, _ = kind
    too_many = settings({**GANG, **values, "workers.replicas": 9, "workers.gpus": 1})

    installed = namespace.helm(helm4, "install", "run1", str(CHART), *digits_settings, *too_many)

    assert installed.returncode == 0, installed.stderr
    wait_until("all pods", lambda: len(_gang(namespace)) == 10, pause=1)
    time.sleep(SECONDS_TO_PLACE)
    assert [pod["metadata"]["name"] for pod in _gang(namespace) if pod["spec"].get("nodeName")] == []


@pytest.mark.parametrize("kind", one_of([PLAIN, MPIJOB]), ids=["plain", "mpi-operator"])
def test_gang_that_fits_trains(namespace: Namespace, helm4: Path, digits_settings: list[str], kind: Kind) -> None:
    values, resources = kind
    fitting = settings({**GANG, **values, "workers.replicas": 2, "workers.gpus": 1})

    installed = namespace.helm(helm4, "install", "run1", str(CHART), *digits_settings, *fitting)

    assert installed.returncode == 0, installed.stderr
    assert namespace.wait_for_end(resources, seconds=180) == "Succeeded", namespace.story()
    assert {pod["spec"]["schedulerName"] for pod in _gang(namespace)} == {"scheduler-plugins-scheduler"}


def test_pods_are_as_the_plugin_predicts(pod_classes: None) -> None:
    # MPIJobs are not compared. The random pods must never start, so they name a scheduler that does not exist, but
    # mpi-operator overwrites this name.
    kinds = {("kubeflow.org/v1", kind) for kind in ("PyTorchJob", "TFJob", "MXJob")}

    differences = list(made_pods.differences(kinds, 12))

    assert differences == []


def _gang(namespace: Namespace) -> list[dict[str, Any]]:
    return [pod for pod in namespace.get("pods") if "keygen" not in pod["metadata"]["name"]]
