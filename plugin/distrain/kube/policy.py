"""Define the objects that the API server's admission plugins apply, such as ResourceQuotas and PriorityClasses."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Kube, Metadata
from distrain.kube.placement import Toleration
from distrain.kube.quantities import Amounts


class ScopedRequirement(Kube):
    scope_name: str = ""
    operator: str = ""
    values: list[str] | None = None


class ScopeSelector(Kube):
    match_expressions: list[ScopedRequirement] | None = None


class QuotaSpec(Kube):
    hard: Amounts | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class QuotaStatus(Kube):
    hard: Amounts | None = None
    used: Amounts | None = None


class ResourceQuota(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: QuotaSpec = field(default_factory=QuotaSpec)
    status: QuotaStatus = field(default_factory=QuotaStatus)


class Limit(Kube):
    type: str = ""
    min: Amounts | None = None
    max: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class LimitRangeSpec(Kube):
    limits: list[Limit] | None = None


class LimitRange(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)


class PriorityClass(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    value: int = 0
    global_default: bool | None = None
    preemption_policy: str | None = None


class Overhead(Kube):
    pod_fixed: Amounts | None = None


class RuntimeScheduling(Kube):
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None
