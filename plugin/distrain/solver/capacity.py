"""Judge whether all pods of a job fit on the nodes, from the free resources and the rules between pods.

Pure functions over numbers. A pod runs on a single node. So the functions count whole pods per node, and do not sum up
resources over the cluster.

The scheduler places one pod after another, and never moves a pod afterwards. Kubernetes does not specify the order of
the pods, or which of several equal nodes the scheduler chooses. So there are two questions: whether all pods fit in
some placement, and whether they fit in every placement that the scheduler can reach. A job has a few roles, each with
many equal pods. One of them is the main role: the role whose number of pods can be changed.

Both answers are exact. If the computation uses up its budget, the answer is `undecided`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from distrain.solver.budget import BUDGET, Budget, ExhaustedError
from distrain.solver.closed_form import Case, packed, sure
from distrain.solver.decide import decide
from distrain.solver.node_classes import Problem, compact
from distrain.solver.problem import Node, Role
from distrain.solver.reduce import asked, reduced

# If several smaller numbers of pods are tried, each try gets 1/TRIES of the budget.
TRIES = 32


class Judgement(Struct, frozen=True):
    """How many main pods fit together with all other pods: in every scheduling order (`sure`), and at best (`most`).

    `most` is None if the other pods alone do not fit. `undecided` means that the search ended early, so both numbers
    may be too small. If the job has rules between its pods, numbers above `count` are not tried, and only some numbers
    below `count` are tried. If `sure` or `most` is below `count`, it was proven for this number of pods, but it may
    hold for a larger number, too.
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
    """Count the main pods that fit together with all other pods, in the worst and in the best case."""
    groups = reduced(nodes, roles, main)
    problem = compact(nodes, groups)
    alike, whole = groups[-1].count - main.count, Budget(budget)
    if not problem.free_of_rules:
        return _searched(problem, alike, whole)
    found = _counted(problem.case(), nodes, groups, alike, whole)
    if found.most and any(role.affinity or role.anti_affinity or role.spread for role in roles):
        # Rules that have no effect at the job's number of pods were left out of the problem. They may have an effect at
        # a larger number, so `most` must not be larger than the job's number of pods.
        return replace(found, most=min(found.most, main.count))
    return found


def _counted(case: Case, nodes: Sequence[Node], groups: Sequence[Role], alike: int, budget: Budget) -> Judgement:
    """Judge a job without rules: pods affect each other only by the resources that they use."""
    count, (*others, group) = groups[-1].count, groups
    most, complete = _most(case, nodes, others, group, budget)
    if complete and (most is None or most < count):
        return Judgement(count - alike, 0, _less(most, alike))
    try:
        surely = sure(case, budget.part(3))
    except ExhaustedError:
        return Judgement(count - alike, 0, _less(most, alike), undecided=True)
    if surely >= count:
        # The job fits in every scheduling order, so a placement exists even if the search has not found it.
        most = max(most or 0, count)
    undecided = not complete and (most is None or most < count)
    return Judgement(count - alike, max(surely - alike, 0), _less(most, alike), undecided)


def _searched(problem: Problem, alike: int, budget: Budget) -> Judgement:
    """Judge a job with rules. Try all of its pods first and, if it is not certain that they fit, fewer pods."""
    count = problem.counts[-1]
    found = decide(problem, budget)
    undecided = found.possible is None or found.certain is None
    if found.certain:
        return Judgement(count - alike, count - alike, count - alike)
    smaller = cache(lambda size: decide(problem.sized(size), budget.part(TRIES)))
    most = count if found.possible else _largest(alike, count, lambda size: smaller(size).possible)
    surely = _largest(alike, count, lambda size: smaller(size).certain) or 0
    return Judgement(count - alike, max(surely - alike, 0), _less(most, alike), undecided)


def _largest(low: int, high: int, holds: Callable[[int], bool | None]) -> int | None:
    """Search by bisection for a size in [low, high) for which `holds` is true. Return None if none was found.

    If there are rules between pods, a larger job may fit although a smaller job does not. So `holds` is true for the
    returned size, but may also be true for a larger size that was not tried.
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
    """Count the role's pods that fit on the node.

    Only the resources that the role requests are considered. The node may be over-committed in any other resource.
    """
    if node.name not in role.nodes:
        return 0
    return min(max(0, node.free.get(resource, 0)) // amount for resource, amount in asked(role))


def room(nodes: Iterable[Node], role: Role) -> int:
    """Count how many pods of the role fit on the nodes, without pods of other roles."""
    return sum(copies(node, role) for node in nodes)


def with_pod(node: Node, role: Role) -> Node:
    free = {name: free - role.request.get(name, 0) for name, free in node.free.items()}
    return Node(node.name, free, node.labels)


def beside(nodes: Sequence[Node], others: Sequence[Role], main: Role) -> tuple[list[Node], Role | None]:
    """Place the pods of the other roles greedily: each on the node where it takes the fewest places of main pods.

    Returns the nodes with these pods on them, and the first role whose pod found no node, or None. The placement is
    good, but not always the best.
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
    case: Case, nodes: Sequence[Node], others: Sequence[Role], main: Role, budget: Budget
) -> tuple[int | None, bool]:
    """Return how many main pods fit at most if all other pods are placed, too, and whether the search was complete.

    The number is None if the other pods alone do not fit, or if the search found no placement.
    """
    try:
        return packed(case, budget.part(3)), True
    except ExhaustedError:
        left, unplaced = beside(nodes, others, main)
        ruled = main.anti_affinity or any(role.anti_affinity for role in others)
        found = None if unplaced or ruled else room(left, main)
        # The main role can have at most as many pods as fit without any other pods. If this is below the job's number
        # of pods, no search is needed.
        return found, room(nodes, main) < main.count


def _less(number: int | None, alike: int) -> int | None:
    """Subtract from a number of main pods the `alike` pods of other roles that were merged into the main role.

    Return None if the result is negative.
    """
    return None if number is None or number < alike else number - alike
