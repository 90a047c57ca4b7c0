"""What decides over pods beside the scheduler: volumes, quotas, limits and priorities, as typed structs.

As in `kube`, only the fields that something here uses, and each with a default.
"""

from __future__ import annotations

from msgspec import field

from distrain.kube import Amounts, ClaimSpec, Kube, Metadata, NodeSelector, ObjectReference


class PersistentVolumeClaim(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class VolumeAffinity(Kube):
    required: NodeSelector | None = None


class VolumeSpec(Kube):
    node_affinity: VolumeAffinity | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    capacity: Amounts | None = None
    claim_ref: ObjectReference | None = None
    volume_mode: str | None = None


class PersistentVolume(Kube):
    metadata: Metadata = field(default_factory=Metadata)
    spec: VolumeSpec = field(default_factory=VolumeSpec)


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
