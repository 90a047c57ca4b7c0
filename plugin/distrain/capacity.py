"""Judge whether one launcher and its workers fit the nodes' free resources.

Pure functions over numbers; nothing here knows Kubernetes. A pod never spans nodes, so what counts is whole pods per
node, not sums over the cluster.

The scheduler places pod by pod, in an order and with tie-breaks that nobody promises, and never takes one back. So
there are two answers: whether some placement holds all pods, and whether every one that the scheduler may arrive at
does. Both are exact here, because one of the two roles is a single pod:

- The launcher takes room from the workers on the one node it lands on: the workers that remain possible are
  counted for each node it may land on; the least of these is sure, the most is possible. Where the launcher lands
  after some workers, it finds less room, not more, so no order is worse than the launcher first.
- The workers may take all of the launcher's room: that needs, on every node with room for the launcher, the fewest
  workers that close it. When the sum over the nodes is more than there are workers, the launcher always finds a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TOO_MANY_PODS = "Too many pods"


@dataclass(frozen=True, slots=True)
class Node:
    """A node and what is free on it; `pods` among the resources counts its free pod slots."""

    name: str
    free: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Role:
    """Pods that are alike: how many, what each asks for (one of `pods` included), and the nodes that admit them."""

    name: str
    count: int
    request: Mapping[str, int]
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Judgement:
    """How many workers find room beside the launcher: surely, and with the best placement. None: not the launcher."""

    workers: int
    sure: int
    most: int | None

    @property
    def certain(self) -> bool:
        return self.most is not None and self.workers <= self.sure

    @property
    def possible(self) -> bool:
        return self.most is not None and self.workers <= self.most


def judge(nodes: Sequence[Node], launcher: Role, workers: Role) -> Judgement:
    """Count the workers that fit together with the launcher, in the worst and in the best case."""
    beside = _workers_beside_launcher(nodes, launcher, workers)
    if not beside:
        return Judgement(workers.count, sure=0, most=None)
    closing = _workers_that_shut_out(nodes, launcher, workers)
    sure = min(beside) if closing is None else min(*beside, closing - 1)
    return Judgement(workers.count, sure=max(sure, 0), most=max(beside))


def copies(node: Node, role: Role) -> int:
    """Count the pods of the role that the node can hold.

    Only requested resources count: a node over-committed on another one still takes the pod.
    """
    if node.name not in role.nodes:
        return 0
    return min(max(0, node.free.get(resource, 0)) // amount for resource, amount in _asked(role))


def room(nodes: Iterable[Node], role: Role) -> int:
    """Count the pods of the role that the nodes can hold, other roles aside."""
    return sum(copies(node, role) for node in nodes)


def shortages(node: Node, role: Role) -> list[str]:
    """Say, in the scheduler's words, what the node lacks for one more pod of a role that it is filled up with."""
    held = copies(node, role)
    short = [name for name, amount in _asked(role) if node.free.get(name, 0) - held * amount < amount]
    return [TOO_MANY_PODS if name == "pods" else f"Insufficient {name}" for name in short]


def with_pod(node: Node, role: Role) -> Node:
    """Return the node once it holds one pod of the role."""
    return Node(node.name, {name: free - role.request.get(name, 0) for name, free in node.free.items()})


def best_launcher_node(nodes: Sequence[Node], launcher: Role, workers: Role) -> Node | None:
    """Return the node on which the launcher costs the fewest workers."""
    candidates = [node for node in nodes if copies(node, launcher)]
    return min(candidates, key=lambda node: _cost(node, launcher, workers), default=None)


def _workers_beside_launcher(nodes: Sequence[Node], launcher: Role, workers: Role) -> list[int]:
    """Count the workers that remain possible, once for each node the launcher may land on."""
    total = room(nodes, workers)
    return [total - _cost(node, launcher, workers) for node in nodes if copies(node, launcher)]


def _cost(node: Node, launcher: Role, workers: Role) -> int:
    return copies(node, workers) - copies(with_pod(node, launcher), workers)


def _workers_that_shut_out(nodes: Sequence[Node], launcher: Role, workers: Role) -> int | None:
    """Return the fewest workers that can close every node to the launcher; None when no number can."""
    total = 0
    for node in nodes:
        if copies(node, launcher):
            closing = _workers_that_close(node, launcher, workers)
            if closing > copies(node, workers):
                return None
            total += closing
    return total


def _workers_that_close(node: Node, launcher: Role, workers: Role) -> int:
    """Return the fewest workers that leave no room for the launcher; more than the node can hold when none do."""
    spare = {name: node.free.get(name, 0) - amount for name, amount in _asked(launcher)}
    return min(spare[name] // amount + 1 for name, amount in _asked(workers) if name in spare)


def _asked(role: Role) -> list[tuple[str, int]]:
    return [(resource, amount) for resource, amount in role.request.items() if amount > 0]
