"""PodTopologySpread: apply constraints with `DoNotSchedule`, which count pods of the cluster and pods of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from distrain import kube
from distrain.kube import selectors
from distrain.scheduler import node_affinity
from distrain.scheduler.constraints import JobConstraints, RoleConstraints
from distrain.scheduler.existing_pods import ExistingPods
from distrain.scheduler.messages import NO_DOMAIN
from distrain.scheduler.taint_toleration import untolerated
from distrain.solver.problem import TopologySpread


def refusal(node: kube.Node, role: RoleConstraints) -> str | None:
    """Return the scheduler's message for a node that lacks one of the topology keys, otherwise None."""
    return None if _has_keys(node, role) else NO_DOMAIN


def spread(
    existing: ExistingPods, role: RoleConstraints, job: JobConstraints, nodes: Mapping[str, kube.Node]
) -> tuple[TopologySpread, ...]:
    """Return the topology spread constraints of the role in the form that the solver uses.

    A constraint with an empty or missing selector counts no pods. Such a constraint only requires that the node has its
    topology key, so it is left out here.
    """
    return tuple(
        _spread(constraint, existing.counts.get(number, Counter()), role, job, nodes)
        for number, constraint in enumerate(role.spread)
        if constraint.label_selector is not None and not selectors.is_empty(constraint.label_selector)
    )


def _spread(
    constraint: kube.TopologySpreadConstraint,
    counts: Counter[str],
    role: RoleConstraints,
    job: JobConstraints,
    nodes: Mapping[str, kube.Node],
) -> TopologySpread:
    eligible = frozenset(name for name, node in nodes.items() if _is_eligible(node, constraint, role))
    present: Counter[str] = Counter()
    for name, count in counts.items():
        if name in eligible:
            present[(nodes[name].metadata.labels or {})[constraint.topology_key]] += count
    counted = frozenset(
        name
        for name, other in job.roles.items()
        if other.namespace == role.namespace and selectors.selects(constraint.label_selector, other.labels)
    )
    return TopologySpread(
        constraint.topology_key, constraint.max_skew, counted, eligible, present, constraint.min_domains or 1
    )


def _is_eligible(node: kube.Node, constraint: kube.TopologySpreadConstraint, role: RoleConstraints) -> bool:
    """Tell whether the constraint counts the pods on the node."""
    if not _has_keys(node, role):
        return False
    if constraint.node_affinity_policy != "Ignore" and not node_affinity.matches(node, role.role.spec):
        return False
    return constraint.node_taints_policy != "Honor" or not untolerated(node, role.role.spec)


def _has_keys(node: kube.Node, role: RoleConstraints) -> bool:
    found = node.metadata.labels or {}
    return all(each.topology_key in found for each in role.spread)
