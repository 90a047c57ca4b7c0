"""Define what a pod's spec says about nodes and other pods: tolerations, affinity, topology spread."""

from __future__ import annotations

from msgspec import field

from distrain.kube.objects import Kube
from distrain.kube.selectors import LabelSelector, NodeSelector


class Toleration(Kube):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeAffinity(Kube):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodTerm(Kube):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodTerm(Kube):
    pod_affinity_term: PodTerm = field(default_factory=PodTerm)


class PodAffinity(Kube):
    required: list[PodTerm] | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[WeightedPodTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Kube):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Kube):
    topology_key: str = ""
    when_unsatisfiable: str = ""
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
