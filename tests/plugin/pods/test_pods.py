"""Test that a part shared by several pods is decoded only once, even if other parts of the pods differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from distrain.pods import pods_protobuf
from distrain.pods.counted_pod import CountedPod
from lab.static_api import protobuf
from tests.plugin.objects import Object, pods

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Encoding = Callable[..., Sequence[CountedPod]]


def _in_protobuf(*objects: Object) -> list[CountedPod]:
    return list(pods_protobuf.pods(memoryview(protobuf.page(protobuf.pods(objects)))))


@pytest.fixture(params=[pods, _in_protobuf], ids=["json", "protobuf"])
def decode(request: pytest.FixtureRequest) -> Encoding:
    encoding: Encoding = request.param
    return encoding


def test_pods_of_a_daemon_set_are_of_one_kind(decode: Encoding) -> None:
    first, second = decode(_pod("a"), _pod("b"))

    assert first.kind is second.kind
    assert first.kind.stays
    assert [found.node_name for found in (first, second)] == ["a", "b"]
    assert [found.labels for found in (first, second)] == [{"of": "a"}, {"of": "b"}]


def test_claims_of_a_pods_volumes_can_be_named(decode: Encoding) -> None:
    claim: Object = {"persistentVolumeClaim": {"claimName": "data"}}
    ephemeral: Object = {"ephemeral": {"volumeClaimTemplate": {}}}
    usual = _pod("a")
    volumes = [{"name": "one", **claim}, {"name": "two", **ephemeral}, {"name": "three", "emptyDir": {}}]

    [found] = decode({**usual, "spec": {**usual["spec"], "volumes": volumes}})

    assert found.name == "pod-a"
    assert [
        (each.name, each.persistent_volume_claim is not None, each.ephemeral is not None) for each in found.volumes
    ] == [
        ("one", True, False),
        ("two", False, True),
        ("three", False, False),
    ]


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("spec", {"priority": 7}),
        ("spec", {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}),
        ("spec", {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
        ("spec", {"overhead": {"cpu": "1"}}),
        ("spec", {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}),
        ("status", {"phase": "Failed"}),
        ("status", {"nominatedNodeName": "c"}),
        ("metadata", {"ownerReferences": []}),
    ],
)
def test_pods_that_differ_in_what_counts_are_not(decode: Encoding, part: str, other: Object) -> None:
    usual = _pod("a")
    first, second = decode(usual, {**usual, part: {**usual[part], **other}})

    assert first.kind is not second.kind


def _pod(node: str) -> Object:
    """Return a pod that the DaemonSet controller has created for a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    metadata = {
        "name": f"pod-{node}",
        "labels": {"of": node},
        "annotations": {"address": node},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1"}],
    }
    spec = {
        "nodeName": node,
        "volumes": [{"name": f"kube-api-access-{node}", "emptyDir": {}}],
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}},
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    }
    status = {"phase": "Running", "podIP": node, "conditions": [{"type": "Ready", "status": "True", "message": node}]}
    return {"metadata": metadata, "spec": spec, "status": status}
