"""Test whether a volume can be used only on some of the nodes, and whether a claim is bound to a volume."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from distrain import kube
from distrain.kube.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from distrain.scheduler.messages import NODE_CONFLICT, OTHER_ZONE
from distrain.scheduler.storage_room import StorageRoom
from distrain.scheduler.volume_binding import BOUND, AnyVolume, BoundVolume, UnboundVolume, is_bound
from tests.plugin.objects import Object

ZONE = "topology.kubernetes.io/zone"
BY_ZONE = [{"matchLabelExpressions": [{"key": ZONE, "values": ["1"]}]}]
HERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}]}}
CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}


def _of(kind: Any, **fields: Any) -> Any:
    return msgspec.convert(fields, kind)


@pytest.mark.parametrize(
    ("metadata", "spec", "is_somewhere"),
    [
        pytest.param({}, {}, False, id="everywhere"),
        pytest.param({"labels": {"app": "a"}}, {}, False, id="another-label"),
        pytest.param({"labels": {ZONE: "1"}}, {}, True, id="zone"),
        pytest.param({}, {"nodeAffinity": HERE}, True, id="node-affinity"),
        pytest.param({"labels": {"app": "a"}}, {"nodeAffinity": HERE}, True, id="node-affinity-and-another-label"),
    ],
)
def test_bound_volume_is_somewhere_by_its_zone_or_node_affinity(
    metadata: Object, spec: Object, is_somewhere: bool
) -> None:
    volume = _of(PersistentVolume, metadata={"name": "v", **metadata}, spec=spec)

    assert BoundVolume("data", volume).is_somewhere is is_somewhere


@pytest.mark.parametrize(
    ("storage_class", "more", "is_somewhere"),
    [
        pytest.param({"provisioner": "disk"}, {}, False, id="made-anywhere"),
        pytest.param({"provisioner": "disk", "allowedTopologies": BY_ZONE}, {}, True, id="made-in-a-zone"),
        pytest.param({"provisioner": "disk"}, {"room": StorageRoom(is_told=True)}, True, id="made-where-there-is-room"),
        pytest.param({"provisioner": "disk"}, {"is_reserved": True}, True, id="reserved"),
        pytest.param({"provisioner": "disk"}, {"node": "a"}, True, id="node-chosen"),
        pytest.param({"provisioner": "kubernetes.io/no-provisioner"}, {}, True, id="not-made"),
    ],
)
def test_volume_that_is_not_bound_yet_is_somewhere_unless_it_is_made_anywhere(
    storage_class: Object, more: dict[str, Any], is_somewhere: bool
) -> None:
    rule = UnboundVolume("data", _of(kube.ClaimSpec, **CLAIM), (), _of(kube.StorageClass, **storage_class), **more)

    assert rule.is_somewhere is is_somewhere


def test_node_without_any_of_the_pods_volumes_is_refused_for_the_first_one() -> None:
    by_label = _of(PersistentVolume, metadata={"name": "v", "labels": {ZONE: "1"}}, spec={})
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["1"]}]}]}
    by_affinity = _of(PersistentVolume, metadata={"name": "w"}, spec={"nodeAffinity": {"required": required}})
    first, second = BoundVolume("data-0", by_label), BoundVolume("data-1", by_affinity)
    here, elsewhere = (kube.Node(metadata=kube.Metadata(labels={ZONE: zone})) for zone in "12")

    assert AnyVolume((first, second)).refusal(elsewhere) == OTHER_ZONE
    assert AnyVolume((second, first)).refusal(elsewhere) == NODE_CONFLICT
    assert AnyVolume((first, second)).refusal(here) is None


@pytest.mark.parametrize(
    ("annotations", "volume", "expected"),
    [({}, "v", False), ({BOUND: "yes"}, "", False), ({BOUND: "yes"}, "v", True)],
)
def test_claim_is_bound_once_the_controller_has_said_so(
    annotations: dict[str, str], volume: str, expected: bool
) -> None:
    metadata = {"name": "data", "annotations": annotations}
    claim = _of(PersistentVolumeClaim, metadata=metadata, spec={**CLAIM, "volumeName": volume})

    assert is_bound(claim) is expected


@pytest.mark.parametrize(("told", "has_room"), [({}, False), ({"capacity": "1"}, True)])
def test_storage_of_unknown_size_has_no_room(told: Object, has_room: bool) -> None:
    capacity = _of(CSIStorageCapacity, metadata={"name": "c"}, storageClassName="late", nodeTopology={}, **told)
    storage_class = _of(kube.StorageClass, metadata={"name": "late"}, provisioner="disk")

    room = StorageRoom((capacity,), is_told=True)

    assert room.has(_of(kube.ClaimSpec, **CLAIM), storage_class, kube.Node()) is has_room
