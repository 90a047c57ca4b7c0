"""Write everything that a check judges to one file, a `List` that `check --snapshot` can read.

Items are written as they are read, so no list is kept in memory. A kind that the user may not read is left out, and the
file says that it was not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from distrain import kube
from distrain.apiserver import paths
from distrain.apiserver.cluster import NOT_ENDED
from distrain.check.snapshot.judged_kinds import ANNOTATIONS, JUDGED, NAMESPACES, NODES, PODS, JudgedKind, Snapshot
from distrain.errors import ForbiddenError, NotFoundError
from distrain.pods import pod_encoding
from distrain.workload.chart_objects import is_of_chart
from distrain.workload.gang_schedulers import BY_VALUE
from distrain.workload.kinds import RENDERED_GROUPS
from distrain.workload.manifest import CHART, NAME_LABEL

if TYPE_CHECKING:
    from distrain.apiserver.capabilities import Capabilities
    from distrain.apiserver.cluster import Cluster
    from distrain.pods.counted_pod import CountedPod

HEAD, SEPARATOR, TAIL = b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[\n', b",\n", b"\n]}\n"
# The API groups that are read: the groups that the chart renders, and the groups of the gang schedulers.
GROUPS = (*RENDERED_GROUPS, *(each.group for each in BY_VALUE.values()))
# Without objects of these kinds the check can judge nothing.
NEEDED = (NODES, PODS)

_encode = msgspec.json.Encoder().encode


class Written(Struct):
    """What was written: the file's last item, and the number of objects by kind."""

    snapshot: Snapshot
    counts: Counter[str] = field(default_factory=Counter)


def write(cluster: Cluster, file: IO[bytes], namespace: str) -> Written:
    """Write the cluster's objects.

    If the user may list a kind only in `namespace`, write the objects of this namespace alone.

    Raises ForbiddenError if the user may not list nodes or pods, and ExpiredError if a list expires before its end.
    """
    written = Written(Snapshot(taken=_now(), groups=list(GROUPS), capabilities=_capabilities(cluster)))
    file.write(HEAD)
    for kind in JUDGED:
        encoded = pod_encoding.encoded if kind is PODS else _encoder(kind)
        for item in _listed(cluster, kind, namespace, written.snapshot):
            file.write(encoded(item) + SEPARATOR)
            written.counts[kind.name] += 1
    file.write(_encode(written.snapshot) + TAIL)
    return written


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _capabilities(cluster: Cluster) -> Capabilities | None:
    try:
        return cluster.capabilities(GROUPS)
    except ForbiddenError:
        return None


def _listed(cluster: Cluster, kind: JudgedKind, namespace: str, snapshot: Snapshot) -> Iterator[Any]:
    """Yield the objects of a kind that the user may read, and record in `snapshot` what was read."""
    has_namespace = kind.is_namespaced or kind is NAMESPACES
    for read in ([], [namespace]) if has_namespace else ([],):
        try:
            yield from _of(cluster, kind, *read)
        except (ForbiddenError, NotFoundError) as error:
            if kind in NEEDED:
                raise
            if isinstance(error, ForbiddenError):
                continue
        snapshot.read[kind.name] = read
        return


def _of(cluster: Cluster, kind: JudgedKind, namespace: str = "") -> Iterator[Any]:
    if kind is PODS:
        return _pods(cluster)
    what = f"{kind.plural} of namespace {namespace}" if namespace else kind.plural
    if kind is NAMESPACES and namespace:
        return iter([cluster.read_one(paths.namespace(namespace), kind.form, what)])
    return cluster.each(kind.path(namespace), kind.form, what)


def _pods(cluster: Cluster) -> Iterator[CountedPod | kube.Pod]:
    """Yield the pods. The chart's pods keep all fields, because a check may subtract their usage from quotas."""
    yield from (pod for pod in cluster.pods() if not is_of_chart(pod.labels))
    selector = f"{NAME_LABEL}={CHART}"
    found = cluster.each(PODS.path(), kube.Pod, "pods of the chart", labelSelector=selector, fieldSelector=NOT_ENDED)
    yield from (pod for pod in found if is_of_chart(pod.metadata.labels or {}))


def _encoder(kind: JudgedKind) -> Callable[[Any], bytes]:
    head = _encode({"apiVersion": kind.api_version, "kind": kind.name}).removesuffix(b"}") + b","

    def encoded(item: Any) -> bytes:
        judged = {key: text for key, text in (item.metadata.annotations or {}).items() if key in ANNOTATIONS}
        item.metadata.annotations = judged or None
        return head + _encode(item).removeprefix(b"{")

    return encoded
