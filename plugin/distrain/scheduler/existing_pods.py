"""Record for each node how the cluster's pods affect the affinity, anti-affinity and topology spread of a role.

Each pod is recorded as soon as it has been read, so the list of all pods is never in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from distrain import kube
from distrain.kube import selectors
from distrain.kube.selectors import Labels
from distrain.pods.counted_pod import CountedPod
from distrain.scheduler.affinity_terms import AffinityTerm
from distrain.scheduler.constraints import JobConstraints, RoleConstraints


class ExistingPods(Struct):
    """Which nodes and domains have pods that matter for the constraints of one role.

    `affinity` are the nodes with pods that satisfy the role's affinity. For each term of the role's anti-affinity,
    `anti_affinity` has the nodes with pods that the term selects. For each topology spread constraint, `counts` has the
    number of matching pods. The keys of `anti_affinity` are the positions of terms, and the keys of `counts` are the
    positions of constraints. `repelling` are the domains (key and value) with pods whose own anti-affinity selects the
    role's pods.

    For nominated pods: `blocked` are the nodes with a nominated pod that the role's anti-affinity selects. `shunning`
    are the nodes with a nominated pod whose own anti-affinity selects the role's pods. `awaited` counts the nominated
    pods for which it is uncertain whether the scheduler considers them.
    """

    affinity: set[str] = field(default_factory=set)
    anti_affinity: dict[int, set[str]] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    repelling: set[tuple[str, str]] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    shunning: set[str] = field(default_factory=set)
    awaited: int = 0


def add_running(
    existing: ExistingPods,
    job: JobConstraints,
    role: RoleConstraints,
    pod: CountedPod,
    node: kube.Node,
    anti_affinity: Iterable[AffinityTerm],
) -> None:
    """Add a pod that has a node; `anti_affinity` is the anti-affinity of this pod."""
    name, labels, namespace = node.metadata.name, pod.labels, pod.namespace
    if role.meets_affinity(namespace, job.namespaces, labels):
        existing.affinity.add(name)
    for number, term in enumerate(role.anti_affinity):
        if term.matches(namespace, job.namespaces, labels):
            existing.anti_affinity.setdefault(number, set()).add(name)
    for number, spread in enumerate(role.spread):
        if _is_counted(spread, pod, role.namespace, labels):
            existing.counts.setdefault(number, Counter())[name] += 1
    existing.repelling.update(_repelling(anti_affinity, job, role, node))


def add_nominated(
    existing: ExistingPods,
    job: JobConstraints,
    role: RoleConstraints,
    pod: CountedPod,
    node: kube.Node,
    anti_affinity: Iterable[AffinityTerm],
) -> None:
    """Add a pod that is nominated for a node. The scheduler considers the pod only on that node."""
    labels, namespace = pod.labels, pod.namespace
    found = node.metadata.labels or {}
    existing.awaited += any(_is_counted(spread, pod, role.namespace, labels) for spread in role.spread)
    avoided = any(term.key in found and term.matches(namespace, job.namespaces, labels) for term in role.anti_affinity)
    if avoided:
        existing.blocked.add(node.metadata.name)
    if _repelling(anti_affinity, job, role, node):
        existing.shunning.add(node.metadata.name)
        # The scheduler checks this anti-affinity in two cases: the role has affinity or anti-affinity of its own, or
        # the role matches the anti-affinity of a pod that already has a node. The second case may begin when another
        # pod of the job gets a node.
        existing.awaited += not (role.affinity or role.anti_affinity) and any(
            role.is_selected(term, job.namespaces) for other in job.roles.values() for term in other.anti_affinity
        )


def _is_counted(spread: kube.TopologySpreadConstraint, pod: CountedPod, namespace: str, labels: Labels) -> bool:
    """Tell whether a topology spread constraint counts a pod. A pod that is being deleted is not counted."""
    if pod.namespace != namespace or pod.is_leaving:
        return False
    return selectors.selects(spread.label_selector, labels)


def _repelling(
    anti_affinity: Iterable[AffinityTerm], job: JobConstraints, role: RoleConstraints, node: kube.Node
) -> set[tuple[str, str]]:
    """Return the domains from which a pod's anti-affinity excludes the role's pods."""
    found = node.metadata.labels or {}
    return {
        (term.key, found[term.key])
        for term in anti_affinity
        if term.key in found and role.is_selected(term, job.namespaces)
    }
