"""Test where the pods of hooks run, and which of the roles' values apply to them."""

from __future__ import annotations

from pathlib import Path

from tests.chart.documents import documents, of_kind


def test_pods_of_hooks_run_where_the_launcher_may_run(helm: Path) -> None:
    nodes = "affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
    values = ("preflight.enabled=true", "nodeSelector.pool=cpu", "launcher.nodeSelector.zone=a",
              "priorityClassName=high", f"{nodes}.weight=1", f"{nodes}.preference.matchExpressions[0].key=rack",
              f"{nodes}.preference.matchExpressions[0].operator=Exists")  # fmt: skip

    pods = of_kind(documents(helm, *values), "Pod")

    assert len(pods) == 3
    for pod in pods:
        spec = pod["spec"]
        assert (spec["nodeSelector"], spec["priorityClassName"]) == ({"pool": "cpu", "zone": "a"}, "high")
        terms = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert [one["weight"] for one in terms] == [1]


def test_pods_of_hooks_need_no_other_pod_beside_them(helm: Path) -> None:
    """A hook's pod may run when the release has no other pod: before an install, or after the end of a run."""
    near = "launcher.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
    values = ("preflight.enabled=true", f"{near}.topologyKey=rack", f"{near}.labelSelector.matchLabels.a=b")

    pods = of_kind(documents(helm, *values), "Pod")

    assert len(pods) == 3
    assert ["requiredDuring" in str(pod["spec"].get("affinity")) for pod in pods] == [False] * 3


def test_annotations_of_workers_reach_no_pod_of_a_hook(helm: Path) -> None:
    pods = of_kind(documents(helm, "preflight.enabled=true", "workers.annotations.networks=rdma"), "Pod")

    assert ["networks" in pod["metadata"]["annotations"] for pod in pods] == [False] * 3
