"""Say why nodes accept no further pod of a job, with the scheduler's messages in the order of its filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from distrain.check.cluster_state import ClusterState
from distrain.check.rule_reasons import between_pods, refused_by_rules
from distrain.scheduler.node_filters import first_refusal
from distrain.scheduler.node_resources_fit import insufficient
from distrain.solver import capacity
from distrain.solver.problem import Node, Role
from distrain.workload.manifest import Job


class Reason(Struct, frozen=True):
    """A reason to refuse a pod, and the number of nodes to which it applies.

    The number is 0 if the pod is refused by something other than the scheduler, such as an admission plugin or kubelet.
    """

    nodes: int
    reason: str


def reasons(job: Job, state: ClusterState) -> list[Reason]:
    """Place as many pods as fit.

    Then return the reasons why nodes refuse the job's next pod, each with the number of nodes.
    """
    blocked, left, has_resources = _blocked(job, state)
    role = next(role for role in job.roles if role.name == blocked.name)
    later = list(state.later_refusals(state.nodes, role))
    by_rules = _by_rules(left, blocked, has_resources=has_resources)
    causes: Counter[str] = Counter()
    for node, room, words in zip(state.nodes, left, later, strict=True):
        if found := first_refusal(node, role.spec):
            causes[found] += 1
        else:
            causes.update(_own_causes(room, blocked, words, by_rules))
    return [Reason(count, words) for words, count in sorted(causes.items())]


def _blocked(job: Job, state: ClusterState) -> tuple[Role, Sequence[Node], bool]:
    """Find the role whose pods do not fit, and return it with the nodes' free capacity.

    Also return whether the free capacity suffices for these pods. If it does, only rules between pods, such as
    anti-affinity, refuse the pods.
    """
    roles = {role.name: state.role(role) for role in job.roles}
    main = roles.pop(job.main.name)
    left, unplaced = capacity.beside(state.free(), list(roles.values()), main)
    if unplaced or capacity.room(left, main) < main.count:
        return unplaced or main, left, False
    if any(between_pods(main)):
        return main, left, True
    ruled = [role for role in roles.values() if role.count and any(between_pods(role))]
    refused = (role for role in ruled if refused_by_rules(state.free(), role))
    return next(refused, ruled[0] if ruled else main), state.free() if ruled else left, True


def _by_rules(nodes: Sequence[Node], role: Role, *, has_resources: bool) -> dict[str, str]:
    """For nodes that have the resources for the next pod but refuse it because of a rule, return the rule's message."""
    found = refused_by_rules(nodes, role)
    # The node has room for the pod if rules between pods (affinity, topology spread) are ignored. So such a rule
    # refuses the pod, even if the plugin cannot tell which one.
    if rules := list(between_pods(role)) if has_resources and not found else []:
        return {node.name: rules[0] for node in nodes if capacity.copies(node, role)}
    return found


def _own_causes(room: Node, role: Role, later: str | None, by_rules: dict[str, str]) -> list[str]:
    """Return why the node refuses the next pod.

    The reasons are tried in this order: a rule between pods, then missing resources, then `later`. `later` is the
    message of a scheduler's filter that comes after the filter for resources.
    """
    if room.name in by_rules:
        return [by_rules[room.name]]
    short = insufficient(room, role)
    return short or ([later] if later else list(between_pods(role))[:1])
