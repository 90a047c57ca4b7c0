"""Read the data for a check from a file: the output of `kubectl get nodes,pods -A -o json`, or of more kinds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from distrain import kube
from distrain.admission.priority import priority_classes_of
from distrain.check.cluster_state import ClusterState, over, take
from distrain.check.dependencies import Dependencies, by_name, foreign_claims, namespace_of, references
from distrain.check.refusals import PreparedJob, prepare
from distrain.errors import ValuesError, reason
from distrain.kube.pod_requests import held
from distrain.kube.pods_json import JsonPod
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota
from distrain.kube.quantities import allocatable
from distrain.kube.storage import PersistentVolume, PersistentVolumeClaim
from distrain.scheduler.node_ports import host_ports
from distrain.workload.manifest import Job

EXPECTED = "it takes the output of `kubectl get nodes,pods -A -o json`"
KINDS: Mapping[str, type[Any]] = {
    "Node": kube.Node,
    "Pod": JsonPod,
    "Namespace": kube.Named,
    "ResourceQuota": ResourceQuota,
    "LimitRange": LimitRange,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "PersistentVolume": PersistentVolume,
    "StorageClass": kube.StorageClass,
    "PriorityClass": PriorityClass,
}

T = TypeVar("T")


class Contents(Struct, frozen=True):
    by_kind: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[kube.Node]:
        return self.by_kind.get("Node", [])

    @property
    def pods(self) -> list[JsonPod]:
        return self.by_kind.get("Pod", [])


class _Kind(msgspec.Struct):
    kind: str = ""


class _List(msgspec.Struct):
    items: Sequence[msgspec.Raw]


def examined(
    found: Contents,
    job: Job,
    namespace: str,
    gpu_resource: str | None = None,
    release: str | None = None,
    more: Sequence[kube.Node] = (),
) -> tuple[PreparedJob, ClusterState]:
    """Return the job's dependencies and the state of the cluster; the nodes in `more` count as part of the cluster."""
    namespace = namespace_of(job, namespace)
    prepared = prepare(job, namespace, _dependencies(found, job, namespace), gpu_resource)
    return prepared, take([*found.nodes, *more], over(found.pods), prepared.constraints, release)


def contents(cluster: bytes) -> Contents:
    """Decode a list of objects; raise msgspec.DecodeError for any other content."""
    found = Contents()
    for item in msgspec.json.decode(cluster, type=_List).items:
        kind = msgspec.json.decode(item, type=_Kind).kind
        if kind in KINDS:
            found.by_kind.setdefault(kind, []).append(msgspec.json.decode(item, type=KINDS[kind]))
    return found


def read_file(path: str) -> Contents:
    """Read a file, or stdin for "-"; raise ValuesError unless it lists objects with at least one node."""
    flag = f"--snapshot: {path}"
    try:
        found = contents(sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes())
    except OSError as error:
        raise ValuesError(f"{flag} cannot be read: {reason(error)}; {EXPECTED}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ValuesError(f"{flag} is no list of nodes and pods ({error}); {EXPECTED}") from error
    if not found.nodes:
        raise ValuesError(f"{flag} holds no node; {EXPECTED}")
    _refuse_odd_objects(found, flag)
    return found


def _refuse_odd_objects(found: Contents, flag: str) -> None:
    """Raise ValuesError for an object that no API server would accept; the user may have edited the file."""
    for kind, look in (("Node", allocatable), ("Pod", _look)):
        for item in found.by_kind.get(kind, ()):
            try:
                look(item)
            except (msgspec.DecodeError, ValueError) as error:
                raise ValuesError(f"{flag}: {kind} {item.metadata.name}: {error}; {EXPECTED}") from error


def _look(pod: JsonPod) -> None:
    """Decode now the parts of a pod that are usually decoded at their first use."""
    held(pod.kind), host_ports(pod.kind), pod.labels, pod.volumes


def _dependencies(found: Contents, job: Job, namespace: str) -> Dependencies:
    """Return the job's dependencies in the file; a kind without objects counts as not read."""

    def of(kind: str, item: type[T], *, is_in_namespace: bool = False) -> list[T] | None:
        items = found.by_kind.get(kind)
        if items is None or not is_in_namespace:
            return items
        return [each for each in items if each.metadata.namespace == namespace]

    named = of("Namespace", kube.Named)
    return Dependencies(
        namespaces=None if named is None else {each.metadata.name: each.metadata.labels or {} for each in named},
        quotas=of("ResourceQuota", ResourceQuota, is_in_namespace=True),
        limit_ranges=of("LimitRange", LimitRange, is_in_namespace=True),
        priority_classes=by_name(of("PriorityClass", PriorityClass)),
        claims=by_name(of("PersistentVolumeClaim", PersistentVolumeClaim, is_in_namespace=True)),
        volumes=by_name(of("PersistentVolume", PersistentVolume)),
        storage_classes=by_name(of("StorageClass", kube.StorageClass)),
        unseen=list(_not_in_file(found, job)),
    )


def _not_in_file(found: Contents, job: Job) -> Iterator[str]:
    needed = ["Namespace", "ResourceQuota", "LimitRange"]
    needed += ["PriorityClass"] if priority_classes_of(job) else []
    needed += ["PersistentVolumeClaim"] if foreign_claims(job) else []
    if kinds := [f"{kind}s" for kind in needed if kind not in found.by_kind]:
        yield f"{', '.join(kinds)} (not in the file)"
    if names := [f"{kind} {name}" for kind, name in references(job)]:
        yield f"whether these are there: {', '.join(names)}"
