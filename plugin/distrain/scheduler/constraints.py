"""Collect the scheduling constraints of a job's pods that are about other pods, host ports and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.kube import selectors
from distrain.kube.selectors import Labels
from distrain.scheduler.affinity_terms import UNREAD, AffinityTerm, NamespaceLabels, required_terms, stated_terms
from distrain.scheduler.node_ports import PortResources, UsedPort, host_ports
from distrain.scheduler.node_volume_limits import AttachLimits
from distrain.scheduler.volume_binding import VolumeRule
from distrain.scheduler.volume_restrictions import ClaimName
from distrain.solver.problem import Affinity
from distrain.workload.manifest import Job, PodRole


class RoleConstraints(Struct, frozen=True):
    """The constraints of one role's pods: required affinity, required anti-affinity, topology spread.

    `beside` is an additional affinity between pods that share a claim, because all of them must reach its volume.
    `keys` are all topology keys that the constraints use. If a pod has a nodeName, it bypasses the scheduler, and
    kubelet ignores these constraints. But when the scheduler later places other pods, it applies this pod's
    anti-affinity to them.
    """

    role: PodRole
    namespace: str
    labels: Labels
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    spread: tuple[kube.TopologySpreadConstraint, ...]
    ports: frozenset[UsedPort]
    volumes: tuple[VolumeRule, ...] = ()
    beside: Affinity | None = None
    keys: frozenset[str] = frozenset()

    @property
    def is_bound(self) -> bool:
        """Tell whether the pods bypass the scheduler, because they have a nodeName."""
        return bool(self.role.spec.node_name)

    def meets_affinity(self, namespace: str, namespaces: NamespaceLabels, labels: Labels) -> bool:
        """Tell whether a pod satisfies the affinity of this role: every term must select the pod."""
        return bool(self.affinity) and all(term.matches(namespace, namespaces, labels) for term in self.affinity)

    def is_selected(self, term: AffinityTerm, namespaces: NamespaceLabels) -> bool:
        """Tell whether a term of another pod selects the pods of this role."""
        return term.matches(self.namespace, namespaces, self.labels)


class JobConstraints(Struct, frozen=True):
    """The constraints of a job's roles, by role name, and the data that is needed to match them.

    `namespace` is the namespace of the release's pods in the cluster; each role also has its own namespace.
    `exclusive_claims` are the claims with access mode ReadWriteOncePod, by namespace and name. `priorities` are the
    lowest and the highest priority of the job's pods. The scheduler places a nominated pod before pods of the job that
    have the same priority or a lower one.
    """

    namespace: str
    roles: Mapping[str, RoleConstraints] = field(default_factory=dict)
    namespaces: NamespaceLabels = UNREAD
    priorities: tuple[int, int] = (0, 0)
    exclusive_claims: frozenset[ClaimName] = frozenset()
    attach_limits: AttachLimits = field(default_factory=AttachLimits)

    @property
    def ports(self) -> PortResources:
        return PortResources(role.ports for role in self.roles.values())

    @property
    def keys(self) -> frozenset[str]:
        return frozenset().union(*(role.keys for role in self.roles.values()))


def constraints_of(
    job: Job,
    namespace: str,
    namespaces: NamespaceLabels = UNREAD,
    *,
    priorities: tuple[int, int] = (0, 0),
    volumes: Mapping[str, tuple[VolumeRule, ...]] | None = None,
    exclusive_claims: frozenset[ClaimName] = frozenset(),
    attach_limits: AttachLimits | None = None,
    beside: Mapping[str, Affinity] | None = None,
) -> JobConstraints:
    """Read the constraints of a job's pods. The pod specs must already have the API server's defaults."""
    rules, near = volumes or {}, beside or {}
    roles = {
        role.name: _of_role(role, role.namespace or namespace, rules.get(role.name, ()), near.get(role.name))
        for role in job.roles
    }
    return JobConstraints(namespace, roles, namespaces, priorities, exclusive_claims, attach_limits or AttachLimits())


def unknown_labels(job: Job) -> Iterator[str]:
    """Name the labels that the roles' constraints use, and whose values are unknown until the job's pods exist."""
    varying = frozenset().union(*(role.varying for role in job.roles))
    for role in job.roles:
        rules: list[kube.PodTerm | kube.TopologySpreadConstraint] = [*stated_terms(role.spec), *_spread(role)]
        for key in sorted({key for rule in rules for key in _label_keys(rule)} & varying):
            yield f"label {key} in the rules of the {role.name}"


def _label_keys(rule: kube.PodTerm | kube.TopologySpreadConstraint) -> Iterator[str]:
    selector = rule.label_selector or kube.LabelSelector()
    yield from selector.match_labels or ()
    yield from (each.key for each in selector.match_expressions or ())
    yield from rule.match_label_keys or ()
    yield from (rule.mismatch_label_keys or ()) if isinstance(rule, kube.PodTerm) else ()


def _of_role(
    role: PodRole, namespace: str, volumes: tuple[VolumeRule, ...], beside: Affinity | None
) -> RoleConstraints:
    stated = role.spec.affinity or kube.Affinity()
    affinity = () if role.spec.node_name else required_terms(stated.pod_affinity, namespace, role.labels)
    anti_affinity = required_terms(stated.pod_anti_affinity, namespace, role.labels)
    spread = () if role.spec.node_name else tuple(_spread(role))
    keys = {term.key for term in (*affinity, *anti_affinity)} | {each.topology_key for each in spread}
    keys |= set(beside.keys if beside else ())
    ports = host_ports(role.spec)
    return RoleConstraints(
        role, namespace, role.labels, affinity, anti_affinity, spread, ports, volumes, beside, frozenset(keys)
    )


def _spread(role: PodRole) -> Iterator[kube.TopologySpreadConstraint]:
    """Yield the topology spread constraints, except those with `ScheduleAnyway`.

    Add matchLabelKeys to the selectors, with the values of the role's labels.
    """
    for spread in role.spec.topology_spread_constraints or ():
        if spread.when_unsatisfiable != "ScheduleAnyway":
            selector = selectors.with_label_keys(spread.label_selector, spread.match_label_keys, "In", role.labels)
            yield replace(spread, label_selector=selector)
