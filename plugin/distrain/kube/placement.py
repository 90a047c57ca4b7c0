"""Define the fields of a pod's spec that restrict its choice of nodes: tolerations, affinity and topology spread."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from distrain.kube.objects import Kube
from distrain.kube.selectors import LabelSelector, NodeSelector, NodeTerm


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
    preferred: Sequence[WeightedPodTerm] | None = field(
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


# The classes whose names begin with Template have additional pod fields, which only the validation of a pod template
# reads.


class TemplateToleration(Toleration):
    toleration_seconds: int | None = None


class PreferredNodes(Kube):
    weight: int = 0
    preference: NodeTerm = field(default_factory=NodeTerm)


class TemplateNodeAffinity(NodeAffinity):
    preferred: list[PreferredNodes] | None = field(default=None, name="preferredDuringSchedulingIgnoredDuringExecution")


class TemplateWeightedPodTerm(WeightedPodTerm):
    weight: int = 0


class TemplatePodAffinity(PodAffinity):
    preferred: list[TemplateWeightedPodTerm] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class TemplateAffinity(Affinity):
    node_affinity: TemplateNodeAffinity | None = None
    pod_affinity: TemplatePodAffinity | None = None
    pod_anti_affinity: TemplatePodAffinity | None = None


class TemplateSpreadConstraint(TopologySpreadConstraint):
    # The API server refuses a constraint without maxSkew.
    max_skew: int = 0
