"""Say why nodes accept no further pod of a job, with the scheduler's messages in the order of its filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from distrain import kube
from distrain.check.cluster_state import ClusterState
from distrain.scheduler.messages import NOT_APART, NOT_NEAR, UNEVEN
from distrain.scheduler.node_filters import first_refusal
from distrain.scheduler.node_resources_fit import insufficient
from distrain.solver import capacity
from distrain.solver.problem import Node, Role
from distrain.workload.manifest import Job, PodRole


class Reason(Struct, frozen=True):
    """The reason why some nodes accept no further pod, and their number: 0 for a refusal before scheduling."""

    nodes: int
    reason: str


def reasons(job: Job, state: ClusterState) -> list[Reason]:
    """Place as many pods as fit; then count the nodes by the reason why they refuse the job's next pod."""
    roles = {role.name: state.role(role) for role in job.roles}
    main = roles.pop(job.main.name)
    left, unplaced = capacity.beside(state.free(), list(roles.values()), main)
    blocked = unplaced or main
    role = next(role for role in job.roles if role.name == blocked.name)
    later = list(state.later_refusals(state.nodes, role))
    causes: Counter[str] = Counter()
    for node, room, words in zip(state.nodes, left, later, strict=True):
        causes.update(_causes(node, room, role, blocked, words))
    return [Reason(count, words) for words, count in sorted(causes.items())]


def _causes(node: kube.Node, room: Node, role: PodRole, blocked: Role, later: str | None) -> list[str]:
    """Return the first refusal of the node; `later` is the first refusal by a filter after NodeResourcesFit."""
    words = first_refusal(node, role.spec)
    if words:
        return [words]
    short = insufficient(room, blocked)
    if short or later:
        return short or [later or ""]
    return list(between_pods(blocked))[:1]


def between_pods(role: Role) -> Iterator[str]:
    """Yield the scheduler's messages for rules between the job's own pods."""
    if role.spread:
        yield UNEVEN
    if role.affinity:
        yield NOT_NEAR
    if role.anti_affinity:
        yield NOT_APART
