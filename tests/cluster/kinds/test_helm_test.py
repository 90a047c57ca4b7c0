"""Test `helm test`: it runs an all-reduce in a second job with the same roles and resources as the first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.cluster import client
from lab.paths import CHART
from lab.waiting import wait_until
from tests.cluster.testbed import Namespace, settings
from tests.cluster.training import MXNET

# The release's own job runs `true` and ends at once. These tests look at the second job, which `helm test` runs.
RUN = {"command": ["true"], "workers.memory": "2Gi"}
PLAIN = {"job.kind": "Plain"}
# The other combinations of Helm and kind run only in the full matrix. The next test covers a failing `helm test` of an
# MPIJob.
KINDS = [
    # MXNet starts fastest.
    pytest.param("helm4", {**MXNET, **PLAIN}, id="helm4-plain"),
    pytest.param("helm3", {}, id="helm3-mpijob", marks=pytest.mark.full),
    pytest.param("helm3", PLAIN, id="helm3-plain", marks=pytest.mark.full),
    pytest.param("helm4", {}, id="helm4-mpijob", marks=pytest.mark.full),
]
POD = "pod/run1-test-cb35b894"
PYTORCH = {"framework": "pytorch", "image.repository": "distrain/pytorch"}


@pytest.mark.parametrize(("helm", "kind"), KINDS, indirect=["helm"])
def test_sum_is_right_and_bandwidth_is_shown(namespace: Namespace, helm: Path, kind: dict[str, str]) -> None:
    assert_summed(namespace, helm, kind)


@pytest.mark.full
def test_torch_sums_too(namespace: Namespace, helm4: Path, all_images: None) -> None:
    assert_summed(namespace, helm4, PYTORCH)


def assert_summed(namespace: Namespace, helm: Path, kind: dict[str, str]) -> None:
    values = settings({**RUN, **kind, "workers.replicas": 2, "workers.gpus": 1})
    assert namespace.helm(helm, "install", "run1", str(CHART), *values).returncode == 0

    tested = namespace.helm(helm, "test", "run1")

    assert tested.returncode == 0, tested.stdout + tested.stderr + namespace.story()
    told = client.kubectl("-n", namespace.name, "logs", "-l", "app.kubernetes.io/component=test", "--tail=-1")
    assert "all-reduce is right on 2 ranks" in told
    assert re.search(r"64 MiB +[0-9.]+ +[0-9]+[.][0-9]+ +[0-9]+[.][0-9]+", told), told
    wait_until("the test's end", lambda: len(_of_the_test(namespace)) == 1, pause=1)
    (pod,) = namespace.get("pods -l app.kubernetes.io/component=test")
    message = pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"]
    assert message == "all-reduce is right on 2 ranks: each rank got the correct sums"
    client.kubectl("-n", namespace.name, "delete", "pod", pod["metadata"]["name"])


def test_missing_gpus_are_reported_at_once(namespace: Namespace, helm4: Path) -> None:
    more = {"command": ["sleep", "300"], "hooks.printLog": True}
    values = {**RUN, "workers.replicas": 2, "workers.gpus": 3, **more}
    assert namespace.helm(helm4, "install", "run1", str(CHART), *settings(values)).returncode == 0

    tested = namespace.helm(helm4, "test", "run1", "--timeout", "300s")

    told = tested.stdout + tested.stderr
    assert tested.returncode != 0
    assert "Insufficient nvidia.com/gpu" in told
    # Helm keeps the Pod of a failed test, so that the user can read its log. After the test, the operator deletes the
    # test's job to free its GPUs.
    wait_until("the job's end", lambda: _of_the_test(namespace) == [POD], pause=1)
    client.kubectl("-n", namespace.name, "delete", POD)


def _of_the_test(namespace: Namespace) -> list[str]:
    kinds = "mpijobs,pytorchjobs,jobs,pods,configmaps,secrets,services,serviceaccounts,roles,rolebindings"
    names = client.kubectl("-n", namespace.name, "get", kinds, "-o", "name").split()
    return [name for name in names if "-test" in name]
