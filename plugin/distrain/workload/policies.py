"""Read the policies of a manifest: Namespaces, ResourceQuotas, LimitRanges and PriorityClasses.

The policies apply to the manifest's own pods, too, because Helm creates these kinds before all pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.kube.policy import LimitRange, PriorityClass, QuotaStatus, ResourceQuota
from distrain.kube.selectors import Labels
from distrain.workload import documents
from distrain.workload.documents import Item

T = TypeVar("T", bound=ResourceQuota | LimitRange)

FORMS: Mapping[tuple[str, str], type[Any]] = {
    ("v1", "Namespace"): kube.Named,
    ("v1", "ResourceQuota"): ResourceQuota,
    ("v1", "LimitRange"): LimitRange,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
}


class Policies(Struct, frozen=True):
    """The policies in a manifest, in the order of FORMS.

    The namespace of an object is still empty if the manifest does not name it.
    """

    namespaces: tuple[kube.Named, ...] = ()
    quotas: tuple[ResourceQuota, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()

    @property
    def labels(self) -> dict[str, Labels]:
        """Return the labels that the manifest sets on its namespaces, by the names of the namespaces."""
        return {each.metadata.name: each.metadata.labels or {} for each in self.namespaces}

    def in_namespaces(self, namespace: str) -> Policies:
        """Return a copy in which each quota and LimitRange without a namespace has the namespace `namespace`."""
        quotas, ranges = _in(self.quotas, namespace), _in(self.limit_ranges, namespace)
        return replace(self, quotas=quotas, limit_ranges=ranges)

    def quotas_of(self, namespace: str) -> list[ResourceQuota]:
        return _last_of(each for each in self.quotas if each.metadata.namespace == namespace)

    def limit_ranges_of(self, namespace: str) -> list[LimitRange]:
        return _last_of(each for each in self.limit_ranges if each.metadata.namespace == namespace)


def policies_of(items: Iterable[Item], origin: str) -> Policies:
    """Return the policies of a manifest; raise ValuesError if one of them does not have the form of its kind."""
    named = [(documents.name_of(item), item) for item in items if is_policy(item)]
    found = documents.each_of(named, origin, _parsed)
    return Policies(*(tuple(each for each in found if isinstance(each, kind)) for kind in FORMS.values()))


def is_policy(item: Item) -> bool:
    """Tell whether an object is a policy that exists when the job's pods are created."""
    return (item.get("apiVersion"), item.get("kind")) in FORMS and documents.is_made_before(item)


def _parsed(item: Item) -> Any:
    found = documents.with_amounts(item, FORMS[item["apiVersion"], item["kind"]], "2, 500m or 4Gi")
    # The API server ignores the status in a request that creates a quota.
    return replace(found, status=QuotaStatus()) if isinstance(found, ResourceQuota) else found


def _in(items: Iterable[T], namespace: str) -> tuple[T, ...]:
    return tuple(
        replace(each, metadata=replace(each.metadata, namespace=each.metadata.namespace or namespace)) for each in items
    )


def _last_of(items: Iterable[T]) -> list[T]:
    """If several objects have the same name, keep only the last one, because it replaces the others in the cluster."""
    return [*{each.metadata.name: each for each in items}.values()]
