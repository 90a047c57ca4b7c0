"""Read the data for a check from a file, which `helm distrain snapshot` or `kubectl get` of some kinds has written.

If a file of kubectl has no object of a kind, either the cluster has none, or the user did not ask kubectl for this
kind. So if the file contains no object of a kind, the kind counts as not read. A file of `helm distrain snapshot` says
what was read.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from distrain import files, kube
from distrain.admission import runtime_class
from distrain.admission.new_quotas import needs_whole_pods
from distrain.admission.pod_security import minor_of
from distrain.apiserver.capabilities import Capabilities
from distrain.check.cluster_state import ClusterState, over, take
from distrain.check.dependencies import (
    ApiKind,
    Dependencies,
    by_name,
    counts_pods,
    ending,
    labels_of,
    may_exist,
    namespace_of,
    own_pods,
    references,
    selects_namespaces,
    served_by_operators,
    uses_claims,
    with_storage,
)
from distrain.check.refusals import PreparedJob, prepare
from distrain.check.snapshot import snapshot_mistakes, written_pods
from distrain.check.snapshot.judged_kinds import FORMS, Snapshot
from distrain.errors import ValuesError, reason
from distrain.kube import form
from distrain.kube.policy import LimitRange, PriorityClass, ResourceQuota, RuntimeClass
from distrain.kube.quantities import allocatable
from distrain.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from distrain.pods.pod_requests import held
from distrain.pods.pods_json import JsonPod
from distrain.scheduler.node_ports import host_ports
from distrain.workload import gang_schedulers
from distrain.workload.controllers import ObjectName
from distrain.workload.counted_objects import CountedObject
from distrain.workload.manifest import CHART, Job

EXPECTED = "give the output of `helm distrain snapshot`, or of `kubectl get nodes,pods -A -o json`"
GZIP = b"\x1f\x8b"

# In the JSON of each pod of the chart, the label app.kubernetes.io/name has this value.
LABELLED = f'"{CHART}"'.encode()

T = TypeVar("T")


class Contents(Struct, frozen=True):
    """The objects of a file by kind.

    `chart_pods` are the pods that may belong to a release, with their whole specs. `encoded_pods` are all pods in JSON.
    """

    by_kind: dict[str, list[Any]] = field(default_factory=dict)
    chart_pods: list[kube.Pod] = field(default_factory=list)
    encoded_pods: list[msgspec.Raw] = field(default_factory=list)

    @property
    def nodes(self) -> list[kube.Node]:
        return self.by_kind.get("Node", [])

    @property
    def pods(self) -> list[JsonPod]:
        return self.by_kind.get("Pod", [])

    def whole_pods(self, namespace: str) -> list[kube.Pod]:
        """Return the pods of a namespace with all fields that the file contains."""
        both = zip(self.pods, self.encoded_pods, strict=True)
        return [msgspec.json.decode(text, type=kube.Pod) for pod, text in both if pod.namespace == namespace]

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the Snapshot object, which `helm distrain snapshot` writes; None if kubectl wrote the file."""
        return next(iter(self.by_kind.get("Snapshot", ())), None)

    @property
    def capabilities(self) -> Capabilities | None:
        """Return the APIs that the cluster serves, or None if the file does not contain them."""
        return self.snapshot.capabilities if self.snapshot else None

    def served(self, api_version: str) -> set[str] | None:
        """Return the served kinds of an operator's API version, or None if the file does not list the served kinds."""
        apis = self.served_of(api_version.partition("/")[0])
        parts = (api.rpartition("/") for api in apis or ())
        return None if apis is None else {kind for version, _, kind in parts if version == api_version}

    def served_of(self, group: str) -> set[str] | None:
        """Return the served APIs of a group as `group/version/Kind`, or None if the file does not contain them."""
        if self.snapshot and self.capabilities and group in self.snapshot.groups:
            return {api for api in self.capabilities.apis if api.startswith(f"{group}/")}
        definitions = self.by_kind.get("CustomResourceDefinition")
        if definitions is None:
            return None
        served = (f"{version}/{kind}" for each in definitions for version, kind in each.served)
        return {api for api in served if api.startswith(f"{group}/")}

    def names(self, kind: str, namespace: str) -> set[str]:
        """Return the names of the objects of this kind and this namespace that the file contains."""
        items = self.by_kind.get(kind, ())
        return {each.metadata.name for each in items if each.metadata.namespace == namespace}

    def has(self, kind: str, namespace: str) -> bool:
        """Tell whether the file contains all objects of the kind in the namespace.

        An empty namespace means all namespaces.
        """
        return self.snapshot.has(kind, namespace) if self.snapshot else kind in self.by_kind


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
    """Return the job's dependencies and the state of the cluster, as if the nodes in `more` were in the cluster."""
    own = namespace_of(job, namespace)
    prepared = prepare(
        job,
        namespace,
        lambda part, where: _dependencies(found, part, where, release if where == own else None),
        gpu_resource,
    )
    return prepared, take([*found.nodes, *more], over(found.pods), prepared.constraints, release)


def contents(cluster: bytes) -> Contents:
    """Decode a list of objects; raise msgspec.DecodeError if the content is something else."""
    found = Contents()
    for item in msgspec.json.decode(cluster, type=_List).items:
        kind = msgspec.json.decode(item, type=_Kind).kind
        if kind == "Pod":
            found.encoded_pods.append(item)
        elif kind in FORMS:
            found.by_kind.setdefault(kind, []).append(msgspec.json.decode(item, type=FORMS[kind]))
        if kind == "Pod" and LABELLED in bytes(item):
            found.chart_pods.append(msgspec.json.decode(item, type=kube.Pod))
    if found.encoded_pods:
        classes = found.by_kind.get("PriorityClass", [])
        found.by_kind["Pod"] = [written_pods.stored(pod, classes) for pod in found.encoded_pods]
    return found


def read_file(path: str) -> Contents:
    """Read a file, or stdin for "-".

    Raise ValuesError unless the content is a list of objects with at least one node.
    """
    flag, content = f"--snapshot: {path}", b""
    try:
        content = _unpacked(files.read(path, files.SNAPSHOT))
        found = contents(content)
    except OSError as error:
        raise ValuesError(f"{flag} cannot be read: {reason(error)}; {EXPECTED}") from error
    except (EOFError, zlib.error) as error:
        raise ValuesError(f"{flag} is cut off or damaged: {error}; {EXPECTED}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        mistakes = snapshot_mistakes.of_list(content, FORMS) or [form.why(error)]
        raise ValuesError(*(f"{flag}: {mistake}; {EXPECTED}" for mistake in mistakes)) from error
    if not found.nodes:
        raise ValuesError(f"{flag} contains no node; {EXPECTED}")
    _refuse_other_snapshots(found, flag)
    _refuse_odd_objects(found, flag)
    return _each_once(found, flag)


def _unpacked(content: bytes) -> bytes:
    """Return the content in UTF-8: unpacked if it is packed, and converted if a PowerShell has written it."""
    if content.startswith(GZIP):
        with gzip.open(io.BytesIO(content)) as unpacked:
            content = files.rest(unpacked, files.SNAPSHOT)
    is_utf16 = content.startswith(codecs.BOM_UTF16_LE)
    return content.decode("utf-16").encode() if is_utf16 else content.removeprefix(codecs.BOM_UTF8)


def _refuse_other_snapshots(found: Contents, flag: str) -> None:
    """Raise ValuesError if the snapshot has another format, or if the file has two snapshots.

    Two snapshots would contain the same pods twice.
    """
    taken = found.by_kind.get("Snapshot", ())
    if len(taken) > 1:
        raise ValuesError(f"{flag} contains {len(taken)} snapshots; name a file with only one snapshot")
    if taken and taken[0].api_version != Snapshot().api_version:
        form_of = f"{taken[0].api_version} instead of {Snapshot().api_version}"
        raise ValuesError(f"{flag} has the format {form_of}; take the snapshot again with this version of distrain")


def _refuse_odd_objects(found: Contents, flag: str) -> None:
    """Raise ValuesError for objects that no API server would accept; the user may have edited the file."""
    looks = [(kind, LOOKS.get(kind, form.refuse_odd_amounts), items) for kind, items in found.by_kind.items()]
    # With --release, the command reads the whole spec of these pods.
    looks.append(("Pod", form.refuse_odd_amounts, found.chart_pods))
    mistakes = [
        f"{flag}: {kind} {item.metadata.name or 'without a name'}: {form.why(error)}; {EXPECTED}"
        for kind, look, items in looks
        for item in items
        if (error := snapshot_mistakes.error_of(look, item))
    ]
    if mistakes:
        raise ValuesError(*dict.fromkeys(mistakes))


def _each_once(found: Contents, flag: str) -> Contents:
    """Return the contents without repeated objects.

    A file has them if a user joins outputs of `kubectl get` that overlap.

    Raises ValuesError if two objects with the same name differ.
    """
    again = {kind: snapshot_mistakes.again(items) for kind, items in found.by_kind.items() if kind != "Snapshot"}
    mistakes = [
        f"{flag}: {name} appears twice, and the two differ; remove the older one"
        for kind, places in again.items()
        for name in snapshot_mistakes.unlike(kind, found.by_kind[kind], places)
    ]
    if mistakes:
        raise ValuesError(*mistakes)
    if not any(again.values()):
        return found
    return Contents(
        {kind: _without(items, again.get(kind, ())) for kind, items in found.by_kind.items()},
        _without(found.chart_pods, snapshot_mistakes.again(found.chart_pods)),
        _without(found.encoded_pods, again.get("Pod", ())),
    )


def _without(items: Sequence[T], places: Container[int]) -> list[T]:
    return [item for place, item in enumerate(items) if place not in places]


def _look(pod: JsonPod) -> None:
    """Decode the parts of a pod that are otherwise decoded only when they are used, so that mistakes are found now."""
    kind = pod.kind
    held(kind), host_ports(kind), pod.labels, pod.volumes


# For the most frequent kinds in a snapshot, a function that checks an object without decoding all of its fields.
LOOKS: Mapping[str, Callable[[Any], object]] = {"Node": allocatable, "Pod": _look}


def _dependencies(found: Contents, job: Job, namespace: str, release: str | None) -> Dependencies:
    """Return the objects in the file that the job depends on."""

    def of(kind: str, item: type[T], *, is_in_namespace: bool = False) -> list[T] | None:
        if not found.has(kind, namespace):
            return None
        items = found.by_kind.get(kind, [])
        return [each for each in items if each.metadata.namespace == namespace] if is_in_namespace else items

    def of_all(kind: str, item: type[T]) -> list[T] | None:
        return of(kind, item) if found.has(kind, "") else None

    named = of("Namespace", kube.Named) if _has_namespaces(found, job, namespace) else None
    own, quotas = (
        own_pods(found.chart_pods, namespace, release),
        of("ResourceQuota", ResourceQuota, is_in_namespace=True),
    )
    dependencies = Dependencies(
        namespaces=labels_of(named),
        ending_namespaces=ending(named),
        quotas=quotas,
        limit_ranges=of("LimitRange", LimitRange, is_in_namespace=True),
        priority_classes=by_name(of("PriorityClass", PriorityClass)),
        runtime_classes=_runtime_classes(found, job),
        claims=by_name(of("PersistentVolumeClaim", PersistentVolumeClaim, is_in_namespace=True)),
        volumes=by_name(of("PersistentVolume", PersistentVolume)),
        storage_classes=by_name(of("StorageClass", kube.StorageClass)),
        own=own,
        existing=frozenset(_existing(found, may_exist(job, quotas, namespace), namespace, has_pods=bool(own))),
        pods=_pods(found, job, namespace) if counts_pods(job, labels_of(named), namespace) else None,
        csi_nodes=of("CSINode", CSINode),
        csi_drivers=by_name(of("CSIDriver", CSIDriver)),
        capacities=of_all("CSIStorageCapacity", CSIStorageCapacity),
        attachments=of("VolumeAttachment", VolumeAttachment),
        all_claims=of_all("PersistentVolumeClaim", PersistentVolumeClaim),
        missing=frozenset(_missing(found, job, namespace)),
        unserved=frozenset(_unserved(found, job)),
        server_minor=minor_of(found.capabilities.version) if found.capabilities else None,
        gang_schedulers=dict(_gang_schedulers(found, job)),
        unseen=list(_not_in_file(found, job, namespace)),
        kubectl_flags=f"--namespace {namespace}",
    )
    return with_storage(dependencies, job)


def _pods(found: Contents, job: Job, namespace: str) -> list[kube.Pod] | None:
    """Return the namespace's pods for the quotas in the manifest.

    Return None if the file is a snapshot and a quota counts fields of pods that a snapshot leaves out.
    """
    needs_whole = any(map(needs_whole_pods, job.policies.quotas_of(namespace)))
    if found.snapshot and needs_whole:
        return None
    try:
        pods = found.whole_pods(namespace)
        form.refuse_odd_amounts(pods)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ValuesError(f"--snapshot: a pod of namespace {namespace}: {form.why(error)}; {EXPECTED}") from error
    return pods


def _runtime_classes(found: Contents, job: Job) -> dict[str, RuntimeClass | None]:
    """Return the RuntimeClasses of the job's pods by name, or an empty dict if the file lacks this kind."""
    if not found.has("RuntimeClass", ""):
        return {}
    every = {each.metadata.name: each for each in found.by_kind.get("RuntimeClass", ())}
    return {name: every.get(name) for name in runtime_class.names(job)}


def _missing(found: Contents, job: Job, namespace: str) -> Iterator[ObjectName]:
    """Yield the objects that the job needs and that the file lacks. Skip kinds that the file does not contain."""
    for kind, name in references(job):
        if found.has(kind, namespace) and name not in found.names(kind, namespace):
            yield kind, name


def _existing(
    found: Contents, objects: Sequence[CountedObject], namespace: str, *, has_pods: bool
) -> Iterator[CountedObject]:
    """Yield those objects that exist already.

    For a kind that the file does not contain, assume that the release's objects exist if its pods exist.
    """
    for each in objects:
        kind, name = each.resource.kind, each.resource.name
        if name in found.names(kind, namespace) if found.has(kind, namespace) else has_pods:
            yield each


def _unserved(found: Contents, job: Job) -> Iterator[ApiKind]:
    """Yield the job's kinds that the cluster does not serve, if the file lists the kinds that the cluster serves."""
    for api_version, kind in served_by_operators(job):
        served = found.served(api_version)
        if served is not None and kind not in served:
            yield api_version, kind


def _gang_schedulers(found: Contents, job: Job) -> Iterator[tuple[str, bool]]:
    """Yield the API group of each gang scheduler that the job needs, and if known, whether the cluster serves it."""
    for each in gang_schedulers.read(job):
        apis = found.served_of(each.group)
        if apis is not None:
            yield each.group, each.is_among(apis)


def _has_namespaces(found: Contents, job: Job, namespace: str) -> bool:
    return found.has("Namespace", "" if selects_namespaces(job) else namespace)


def _not_in_file(found: Contents, job: Job, namespace: str) -> Iterator[str]:
    needed = ["ResourceQuota", "LimitRange", "PriorityClass"]
    needed += ["PersistentVolumeClaim"] if uses_claims(job) else []
    unread = [] if _has_namespaces(found, job, namespace) else ["Namespace"]
    unread += [kind for kind in needed if not found.has(kind, namespace)]
    if kinds := [f"{kind}es" if kind.endswith("s") else f"{kind}s" for kind in unread]:
        why = "not in the file" if found.by_kind else "no cluster is asked"
        why = "who took the snapshot may not read them" if found.snapshot else why
        yield f"{', '.join(kinds)} ({why})"
    for version, kind in served_by_operators(job):
        if found.served(version) is None:
            yield f"whether the cluster serves {kind} of {version}"
    if names := [f"{kind} {name}" for kind, name in references(job) if not found.has(kind, namespace)]:
        yield f"whether these are there: {', '.join(names)}"
