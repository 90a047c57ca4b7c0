"""InterPodAffinity: apply the required affinity and anti-affinity between a job's pods and the cluster's pods.

This module finds the nodes that refuse a role because of pods in the cluster. The solver applies the rules between the
job's own pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from distrain import kube
from distrain.scheduler.constraints import JobConstraints, RoleConstraints
from distrain.scheduler.existing_pods import ExistingPods
from distrain.scheduler.messages import NOT_APART, NOT_NEAR, REPELLED
from distrain.solver.problem import Affinity, AntiAffinity


class Refused(Struct, frozen=True):
    """The nodes that refuse a role because of pods in the cluster.

    `avoided` and `repelling` are domains, each with key and value. `blocked` are names of nodes.
    """

    role: RoleConstraints
    avoided: frozenset[tuple[str, str]]
    repelling: frozenset[tuple[str, str]]
    blocked: frozenset[str]

    def message(self, node: kube.Node) -> str | None:
        """Return the scheduler's message for the node, or None if the filter accepts the node."""
        if self.role.is_bound:
            return None
        found = node.metadata.labels or {}
        if any(term.key not in found for term in self.role.affinity):
            return NOT_NEAR
        if any(found.get(key) == value for key, value in self.avoided):
            return NOT_APART
        if node.metadata.name in self.blocked or any(found.get(key) == value for key, value in self.repelling):
            return REPELLED
        return None


def refused(existing: ExistingPods, role: RoleConstraints, nodes: Mapping[str, kube.Node]) -> Refused:
    avoided = frozenset(
        (term.key, domain)
        for number, term in enumerate(role.anti_affinity)
        for domain in _domains(existing.anti_affinity.get(number, ()), term.key, nodes)
    )
    has_rules = bool(role.affinity or role.anti_affinity or existing.repelling)
    blocked = existing.blocked | existing.shunning if has_rules else existing.blocked
    return Refused(role, avoided, frozenset(existing.repelling), frozenset(blocked))


def affinity(
    existing: ExistingPods, role: RoleConstraints, job: JobConstraints, nodes: Mapping[str, kube.Node]
) -> Affinity | None:
    """Return the role's affinity to the job's pods, and the domains in which pods of the cluster already satisfy it."""
    if not role.affinity:
        return None
    keys = tuple(dict.fromkeys(term.key for term in role.affinity))
    roles = frozenset(
        name for name, other in job.roles.items() if role.meets_affinity(other.namespace, job.namespaces, other.labels)
    )
    return Affinity(keys, roles, {key: _domains(existing.affinity, key, nodes) for key in keys})


def anti_affinity(role: RoleConstraints, job: JobConstraints) -> tuple[AntiAffinity, ...]:
    """Return the anti-affinity between this role and the job's roles, even if only the other role states it."""
    found: dict[str, set[str]] = {}
    for name, other in job.roles.items():
        if role.is_bound and other.is_bound:
            continue
        about_other = [term for term in role.anti_affinity if other.is_selected(term, job.namespaces)]
        about_us = [term for term in other.anti_affinity if role.is_selected(term, job.namespaces)]
        for term in (*about_other, *about_us):
            found.setdefault(term.key, set()).add(name)
    return tuple(AntiAffinity(key, frozenset(roles)) for key, roles in sorted(found.items()))


def _domains(names: Iterable[str], key: str, nodes: Mapping[str, kube.Node]) -> frozenset[str]:
    found = ((nodes[name].metadata.labels or {}).get(key) for name in names if name in nodes)
    return frozenset(domain for domain in found if domain is not None)
