"""Explain one node: compare each role's requests with the node's free resources, and say why the node refuses pods."""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.check.cluster_state import ClusterState
from distrain.check.rule_reasons import between_pods
from distrain.errors import ValuesError
from distrain.kube.quantities import allocatable, rounded_down, text
from distrain.scheduler import node_ports, node_volume_limits
from distrain.scheduler.node_resources_fit import insufficient
from distrain.scheduler.taint_toleration import untolerated
from distrain.solver import capacity
from distrain.solver.problem import Node, Role
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import listed


def why(name: str, job: Job, state: ClusterState) -> list[str]:
    """Return the lines that explain the node; raise ValuesError if the node does not exist."""
    found = [pair for pair in zip(state.nodes, state.free(), strict=True) if pair[1].name == name]
    if not found:
        names = sorted(node.metadata.name for node in state.nodes)
        raise ValuesError(f"--why: there is no node {name}; existing nodes: {listed(names[:5]) or 'none'}")
    node, free = found[0]
    lines = [f"{name}: {_state(node)}"]
    for role in reversed(job.roles):
        lines += _of_role(role, state.role(role), node, free, state)
    return lines


def _state(node: kube.Node) -> str:
    taints = [f"{taint.key}:{taint.effect}" for taint in node.spec.taints or ()]
    words = ["cordoned"] if node.spec.unschedulable else []
    words += [f"taints {', '.join(taints)}"] if taints else []
    return "; ".join(words) or "takes pods"


def _of_role(role: PodRole, asked: Role, node: kube.Node, free: Node, state: ClusterState) -> Iterator[str]:
    held = capacity.copies(free, asked)
    yield f"{role.pods(role.replicas)}: this node holds {held} by itself"
    whole = allocatable(node)
    for resource, amount in sorted(role.request.items()):
        left, of = free.free.get(resource, 0), whole.get(resource, 0)
        mark = "" if left >= amount else "  <- short"
        figures = f"asks {text(resource, amount)}, free {rounded_down(resource, left)} of {rounded_down(resource, of)}"
        yield f"  {resource:<24} {figures}{mark}"
    for name in sorted(name for name in asked.request if name.startswith(node_ports.PREFIX)):
        yield f"  {name:<24} {'free' if free.free.get(name) else 'taken  <- short'}"
    for name in sorted(name for name in asked.request if name.startswith(node_volume_limits.PREFIX)):
        left, number = free.free[name], asked.request[name]
        if left < node_volume_limits.UNLIMITED:
            yield f"  {name:<24} asks {number}, free {left}{'' if left >= number else '  <- short'}"
    for words in _in_the_way(role, asked, node, free, state):
        yield f"  {words}"


def _in_the_way(role: PodRole, asked: Role, node: kube.Node, free: Node, state: ClusterState) -> Iterator[str]:
    """Yield lines that say why the node refuses the role's pods, and which rules and node labels affect the pods."""
    cause = state.refusal(node, role)
    if cause:
        taints = [f"{taint.key}={taint.value or ''}:{taint.effect}" for taint in untolerated(node, role.spec)]
        yield f"refused: {cause}{f': {listed(taints)}' if 'taint' in cause else ''}"
    elif (held := capacity.copies(free, asked)) < role.replicas:
        head = f"takes no more than {held}" if held else "refused"
        yield f"{head}: {listed(insufficient(free, asked))}"
    rules = [words.removeprefix("node(s) didn't match ") for words in between_pods(asked)]
    if rules:
        yield f"the job's own pods decide, too: {listed(rules)}"
    for label in sorted(free.labels):
        yield f"label {label}={free.labels[label]}"
