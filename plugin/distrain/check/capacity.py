"""Judge whether a job's pods fit the nodes' free resources.

Pure functions over numbers; nothing here knows Kubernetes. A pod never spans nodes, so what counts is whole pods per
node, not sums over the cluster.

The scheduler places pod by pod, in an order and with tie-breaks that nobody promises, and never takes one back. So
there are two answers: whether some placement holds all pods, and whether every one that the scheduler may arrive at
does. A job has few roles, each of many pods alike, and one of them is its main role. Both answers are counted over the
nodes (see tally), by how many pods of the other roles stand there:

- The most pods of the main role beside all the others: with each number of others on a node go so many main ones.
- The fewest pods of the main role that shut a pod of some role out of every node, the job's other pods being placed
  anywhere. With fewer than that, each pod finds a node whatever came before it.

Both are exact, unless the search runs out of its budget: then the answer is `undecided`, and never a wrong one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distrain.check.problem import Node, Role
from distrain.check.tally import Budget, ExhaustedError, Options, Vector, fewest, most

TOO_MANY_PODS = "Too many pods"
# Steps of one search; some seconds.
BUDGET = 1_000_000


@dataclass(frozen=True, slots=True)
class Judgement:
    """How many pods of the main role find room beside all the others: surely, and with the best placement.

    `most` is None where not even the others fit. `undecided`: the search ended early, and more may be possible or sure.
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


@dataclass(frozen=True, slots=True)
class _Slot:
    """Nodes that are the same to the job: what is free there of what it asks for, and which roles they admit."""

    free: Vector
    admits: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class _Case:
    """The job against the nodes. `requests` and `counts` hold the main role last."""

    slots: Mapping[_Slot, int]
    requests: Sequence[Vector]
    counts: Vector

    def room(self, free: Vector, slot: _Slot, role: int) -> int:
        if not slot.admits[role]:
            return 0
        return min(left // amount for left, amount in zip(free, self.requests[role], strict=True) if amount)


def judge(nodes: Sequence[Node], roles: Sequence[Role], main: Role, budget: int = BUDGET) -> Judgement:
    """Count the main role's pods that fit together with all others, in the worst and in the best case."""
    others, group = _grouped(roles, main)
    case, alike = _case(nodes, [*others, group]), group.count - main.count
    packed, complete = _packed(case, nodes, others, group, budget)
    if complete and (packed is None or packed < group.count):
        return Judgement(main.count, 0, _less(packed, alike))
    try:
        sure = _sure(case, Budget(budget))
    except ExhaustedError:
        return Judgement(main.count, 0, _less(packed, alike), undecided=True)
    if sure >= group.count:
        # Whatever the scheduler does ends well, so a placement exists, found or not.
        packed = max(packed or 0, group.count)
    undecided = not complete and (packed is None or packed < group.count)
    return Judgement(main.count, max(sure - alike, 0), _less(packed, alike), undecided)


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


def _asked(role: Role) -> list[tuple[str, int]]:
    return [(resource, amount) for resource, amount in role.request.items() if amount > 0]


def _grouped(roles: Sequence[Role], main: Role) -> tuple[list[Role], Role]:
    """Take roles whose pods are alike for one; return those without the main role, and the one with it."""
    groups: dict[object, Role] = {_likeness(main): replace(main, count=0)}
    for role in roles:
        if role.count or role is main:
            known = groups.get(_likeness(role), replace(role, count=0))
            groups[_likeness(role)] = replace(known, count=known.count + role.count)
    group = groups.pop(_likeness(main))
    return list(groups.values()), group


def _likeness(role: Role) -> object:
    return frozenset(_asked(role)), role.nodes


def _case(nodes: Sequence[Node], roles: Sequence[Role]) -> _Case:
    resources = sorted({resource for role in roles for resource, _ in _asked(role)})
    slots = Counter(
        _Slot(
            # Over-committed is as good as full, for those who ask; the others do not look at it.
            tuple(max(0, node.free.get(resource, 0)) for resource in resources),
            tuple(node.name in role.nodes for role in roles),
        )
        for node in nodes
    )
    requests = [tuple(role.request.get(resource, 0) for resource in resources) for role in roles]
    return _Case(slots, requests, tuple(role.count for role in roles))


def _packed(
    case: _Case, nodes: Sequence[Node], others: Sequence[Role], main: Role, budget: int
) -> tuple[int | None, bool]:
    """Return the most main pods beside all others (None: not even these fit), and whether the search was complete."""
    counts, spent = case.counts[:-1], Budget(budget)
    if any(room(nodes, role) < role.count for role in others):
        return None, True
    try:
        placements = ((_placements(case, slot, spent), number) for slot, number in case.slots.items())
        return most(placements, counts, spent), True
    except ExhaustedError:
        left, unplaced = beside(nodes, others, main)
        found = None if unplaced else room(left, main)
        # However the others are placed, they leave the main role no more than all the room there is.
        return found, room(nodes, main) < main.count


def _sure(case: _Case, budget: Budget) -> int:
    """Return up to how many main pods no pod of the job can be shut out."""
    last, count = len(case.counts) - 1, case.counts[-1]
    sure = count
    for role in range(len(case.counts)):
        # The pod that is shut out is not among those that do it.
        limits = tuple(limit - (role == other) for other, limit in enumerate(case.counts))
        open_slots = [(slot, number) for slot, number in case.slots.items() if case.room(slot.free, slot, role)]
        if sum(_pods_to_close(case, slot, role) * number for slot, number in open_slots) > sum(limits):
            continue
        closings = ((_closings(case, slot, role, budget), number) for slot, number in open_slots)
        needed = fewest(closings, limits[:-1], limits[-1], budget)
        if needed is not None:
            sure = min(sure, needed if role == last else needed - 1)
    return sure


def _pods_to_close(case: _Case, slot: _Slot, role: int) -> int:
    """Return a number of pods, of whatever roles, with less than which such a node has room for one of the role."""
    largest: list[int] = [max(amounts) for amounts in zip(*case.requests, strict=True)]
    asked = zip(slot.free, case.requests[role], largest, strict=True)
    return min((free - amount) // most_taken + 1 for free, amount, most_taken in asked if amount)


def _placements(case: _Case, slot: _Slot, budget: Budget) -> Options:
    """Return how many main pods such a node holds beside each number of others."""
    main = len(case.counts) - 1
    return {others: case.room(free, slot, main) for others, free in _fillings(case, slot, budget)}


def _closings(case: _Case, slot: _Slot, role: int, budget: Budget) -> Options:
    """Return the fewest main pods that, with each number of others, leave such a node no room for one of the role."""
    options: Options = {}
    main = len(case.counts) - 1
    for others, free in _fillings(case, slot, budget):
        if not case.room(free, slot, role):
            options[others] = 0
            continue
        pairs = zip(free, case.requests[role], case.requests[main], strict=True)
        needed = min((left - asked) // amount + 1 for left, asked, amount in pairs if asked and amount)
        if needed <= case.room(free, slot, main):
            options[others] = needed
    return options


def _fillings(case: _Case, slot: _Slot, budget: Budget) -> Iterator[tuple[Vector, Vector]]:
    """Yield each number of other pods that such a node can hold, and what they leave free."""
    partial: list[tuple[Vector, Vector]] = [((), slot.free)]
    for role, count in enumerate(case.counts[:-1]):
        partial = [
            ((*numbers, number), _left(free, case.requests[role], number))
            for numbers, free in partial
            for number in range(min(count, case.room(free, slot, role)) + 1)
        ]
        budget.spend(len(partial))
    yield from partial


def _left(free: Vector, request: Vector, number: int) -> Vector:
    return tuple(amount - number * asked for amount, asked in zip(free, request, strict=True))


def _less(number: int | None, alike: int) -> int | None:
    """Return a number of pods less those of other roles that are like the main one's; None when less than these."""
    return None if number is None or number < alike else number - alike
