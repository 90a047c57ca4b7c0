"""Test that the plugin reads all pods if a real API server returns them in several pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.connection import JSON
from distrain.apiserver.pages import PodListing
from distrain.apiserver.target import choose
from distrain.pods import pods_protobuf
from distrain.pods.counted_pod import CountedPod
from distrain.pods.pod_requests import held
from lab.cluster import client
from lab.paths import KUBECONFIG
from tests.cluster.testbed import Namespace

# The test's pods never run, so the namespace need not restrict them.
POD_SECURITY = "privileged"
PODS = 5


def test_pods_are_the_same_in_either_encoding(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    client.apply(*(_pod(number, namespace.name) for number in range(PODS)))
    cluster = connect(choose(kubeconfig=str(KUBECONFIG), context=None, namespace=namespace.name))
    pages: list[int] = []
    monkeypatch.setattr("distrain.apiserver.pages.PAGE_SIZE", 2)
    monkeypatch.setattr("distrain.apiserver.pages._has_processors", lambda: False)
    monkeypatch.setattr(pods_protobuf, "pods", _counting(pages, pods_protobuf.pods))

    in_protobuf, read = _pods(cluster, namespace.name), len(pages)
    monkeypatch.setattr(PodListing, "_accept_more", JSON)
    as_json = _pods(cluster, namespace.name)

    assert in_protobuf == as_json
    assert [labels for labels, *_ in as_json] == [{"number": str(number)} for number in range(PODS)]
    assert [amounts["cpu"] for *_, amounts in as_json] == [100 * (number + 1) for number in range(PODS)]
    assert PODS // 2 <= read == len(pages)


def _counting(pages: list[int], pods: Callable[[memoryview], Any]) -> Callable[[memoryview], Any]:
    def counted(page: memoryview) -> Any:
        pages.append(len(page))
        return pods(page)

    return counted


def _pod(number: int, namespace: str) -> dict[str, Any]:
    """Return a pod that stays Pending, because it names a scheduler that does not exist."""
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": f"{number + 1}00m", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": namespace, "labels": {"number": str(number)}},
        "spec": {"schedulerName": "nobody", "containers": [container]},
    }


def _pods(cluster: Cluster, namespace: str) -> list[Any]:
    """For each pod of the namespace, return the facts that the plugin reads to count the cluster's usage."""

    def used(pods: Iterator[CountedPod]) -> list[Any]:
        return [_parts(pod) for pod in pods if pod.namespace == namespace]

    return sorted(cluster.over_pods(used), key=str)


def _parts(pod: CountedPod) -> Any:
    kind = pod.kind
    return pod.labels, pod.node_name, pod.is_leaving, kind.stays, kind.phase, kind.priority, dict(held(kind))
