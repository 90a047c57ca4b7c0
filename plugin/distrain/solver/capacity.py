"""Judge whether a job's pods fit the nodes' free resources together, with the rules between them.

Pure functions over numbers. A pod runs on one node, so whole pods per node are counted, not sums over the cluster.

The scheduler places pod by pod, in an order and with tie-breaks that are not specified, and moves no pod afterwards. So
there are two answers: whether some placement holds all pods, and whether every placement that the scheduler can reach
does. A job has few roles of many equal pods, and one of them is its main role.

Both answers are exact. If the search runs out of its budget, the answer is `undecided`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.closed_form import Case, packed, sure
from distrain.solver.decide import decide
from distrain.solver.node_classes import Problem, compact
from distrain.solver.problem import Node, Role
from distrain.solver.reduce import asked, reduced

# Steps of one search; some seconds.
BUDGET = 1_000_000
# Several smaller sizes are tried, each with this fraction of the budget.
TRIES = 16


class Judgement(Struct, frozen=True):
    """How many pods of the main role fit beside all other pods: in every order (`sure`), and at best (`most`).

    `most` is None if not even the other pods fit. `undecided`: the search ended early, and more may be possible or
    sure. For a job with rules both are at most `count`. A smaller number is true but may not be the largest: it is the
    best of some sizes that were tried.
    """

    count: int
    sure: int
    most: int | None
    undecided: bool = False

    @property
    def certain(self) -> bool:
        return self.possible and self.count <= self.sure

    @property
    def possible(self) -> bool:
        return self.most is not None and self.count <= self.most


def judge(nodes: Sequence[Node], roles: Sequence[Role], main: Role, budget: int = BUDGET) -> Judgement:
    """Count the main role's pods that fit together with all others, in the worst and in the best case."""
    groups = reduced(nodes, roles, main)
    problem = compact(nodes, groups)
    alike = groups[-1].count - main.count
    if not problem.free_of_rules:
        return _searched(problem, alike, budget)
    found = _counted(problem.case(), nodes, groups, alike, budget)
    if found.most and any(role.near or role.apart or role.spread for role in roles):
        # That the rules have no effect holds for this count.
        return replace(found, most=min(found.most, main.count))
    return found


def _counted(case: Case, nodes: Sequence[Node], groups: Sequence[Role], alike: int, budget: int) -> Judgement:
    """Judge pods that matter to each other by the room that they take, and by nothing else."""
    count, (*others, group) = groups[-1].count, groups
    most, complete = _most(case, nodes, others, group, budget)
    if complete and (most is None or most < count):
        return Judgement(count - alike, 0, _less(most, alike))
    try:
        surely = sure(case, Budget(budget))
    except ExhaustedError:
        return Judgement(count - alike, 0, _less(most, alike), undecided=True)
    if surely >= count:
        # Whatever the scheduler does ends well, so a placement exists, found or not.
        most = max(most or 0, count)
    undecided = not complete and (most is None or most < count)
    return Judgement(count - alike, max(surely - alike, 0), _less(most, alike), undecided)


def _searched(problem: Problem, alike: int, budget: int) -> Judgement:
    """Judge pods with rules: for the count itself, and where that is not sure, for smaller ones."""
    count = problem.counts[-1]
    found = decide(problem, budget)
    undecided = found.possible is None or found.certain is None
    if found.certain:
        return Judgement(count - alike, count - alike, count - alike)
    smaller = cache(lambda size: decide(problem.sized(size), budget // TRIES))
    most = count if found.possible else _largest(alike, count, lambda size: smaller(size).possible)
    surely = _largest(alike, count, lambda size: smaller(size).certain) or 0
    return Judgement(count - alike, max(surely - alike, 0), _less(most, alike), undecided)


def _largest(low: int, high: int, holds: Callable[[int], bool | None]) -> int | None:
    """Return a size below `high` for which it holds, and for the next one tried it does not; None when none is found.

    With rules a job may be possible where a smaller one is not: so what is found is true, and may not be the largest.
    """
    found = None
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            found, low = middle, middle + 1
        else:
            high = middle
    return found


def copies(node: Node, role: Role) -> int:
    """Count the pods of the role that the node can hold.

    Only requested resources count: a node over-committed on another one still takes the pod.
    """
    if node.name not in role.nodes:
        return 0
    return min(max(0, node.free.get(resource, 0)) // amount for resource, amount in asked(role))


def room(nodes: Iterable[Node], role: Role) -> int:
    """Count the pods of the role that the nodes can hold, other roles aside."""
    return sum(copies(node, role) for node in nodes)


def with_pod(node: Node, role: Role) -> Node:
    """Return the node once it holds one pod of the role."""
    return Node(node.name, {name: free - role.request.get(name, 0) for name, free in node.free.items()})


def beside(nodes: Sequence[Node], others: Sequence[Role], main: Role) -> tuple[list[Node], Role | None]:
    """Place the other roles' pods, each where it costs the main role least, and return the nodes as they are then.

    Returns the first role of which a pod found no node, too. A good placement, not always the best one.
    """
    left = list(nodes)
    for role in sorted(others, key=lambda role: room(nodes, role)):
        costs = [(_cost(node, role, main), number) for number, node in enumerate(left) if copies(node, role)]
        heapq.heapify(costs)
        for _ in range(role.count):
            if not costs:
                return left, role
            number = costs[0][1]
            left[number] = node = with_pod(left[number], role)
            if copies(node, role):
                heapq.heapreplace(costs, (_cost(node, role, main), number))
            else:
                heapq.heappop(costs)
    return left, None


def _cost(node: Node, role: Role, main: Role) -> int:
    return copies(node, main) - copies(with_pod(node, role), main)


def _most(
    case: Case, nodes: Sequence[Node], others: Sequence[Role], main: Role, budget: int
) -> tuple[int | None, bool]:
    """Return the most main pods beside all others (None: not even these fit), and whether the search was complete."""
    try:
        return packed(case, Budget(budget)), True
    except ExhaustedError:
        left, unplaced = beside(nodes, others, main)
        ruled = main.apart or any(role.apart for role in others)
        found = None if unplaced or ruled else room(left, main)
        # However the others are placed, they leave the main role no more than all the room there is.
        return found, room(nodes, main) < main.count


def _less(number: int | None, alike: int) -> int | None:
    """Return a number of pods less those of other roles that are like the main one's; None when less than these."""
    return None if number is None or number < alike else number - alike
