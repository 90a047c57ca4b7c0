"""Decide whether a job of any size fits, without a search: by sums over domains and over classes of equal nodes.

For each role, assume that the pods of all other roles go to the worst possible places, even if their own rules forbid
this. So every proof is correct, but for some jobs this module finds no proof. The proofs use the following two facts.
Once a domain contains a pod that an affinity requires, the affinity always admits pods there, because pods never leave
a domain. A spread constraint admits a pod to the domain with the fewest pods, as long as this domain has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.closed_form import Slot, less, packed, shutting_out
from distrain.solver.node_classes import MANY, NOWHERE, AffinityRule, NodeClass, Problem, Rules, SpreadRule
from distrain.solver.pareto import Vector


class Decision(Struct, frozen=True):
    """Whether all pods are placed in every scheduling order (`certain`), and in at least one order (`possible`).

    A field is None if the answer is unknown.
    """

    certain: bool | None = None
    possible: bool | None = None


def decide(problem: Problem, budget: Budget) -> Decision:
    """Decide as much as possible without a search. None of the four checks may use more than a third of the budget."""

    def holds(answer: Callable[[_Bounds], bool]) -> bool:
        try:
            return answer(_Bounds(problem, budget.part(3)))
        except ExhaustedError:
            return False

    if holds(_Bounds.impossible):
        return Decision(certain=False, possible=False)
    if holds(_Bounds.certain):
        return Decision(certain=True, possible=True)
    return Decision(False if holds(_Bounds.may_get_stuck) else None, True if holds(_Bounds.possible) else None)


class _Domain(Struct, frozen=True):
    """One domain of a spread constraint.

    `before` is the number of counted pods before the job starts. `room` is the number of the role's pods that fit.
    `measured` is true if the constraint considers this domain when it looks for the domain with the fewest pods.
    """

    before: int
    room: int
    measured: bool


class _Cell(Struct, frozen=True):
    """`kinds` has the number of nodes of each class in one domain. `times` domains have these same numbers."""

    kinds: Mapping[NodeClass, int]
    times: int


class _Bounds:
    def __init__(self, problem: Problem, budget: Budget) -> None:
        self._problem, self._budget = problem, budget
        self._case = problem.case()
        self._roles = [role for role, count in enumerate(problem.counts) if count]
        self._cells = cache(self._cells_of)

    def certain(self) -> bool:
        """Tell whether each role finds nodes for all of its pods, wherever the other pods are placed."""
        proven: set[int] = set()
        while more := {role for role in self._roles if role not in proven and self._finds_places(role, proven)}:
            proven |= more
        return len(proven) == len(self._roles)

    def impossible(self) -> bool:
        """Tell whether the pods of some role do not fit, even if every other pod is where it takes the least room."""
        most = packed(self._case, self._budget)
        if most is None or most < self._problem.counts[-1]:
            return True
        return any(self._room(role) < self._problem.counts[role] for role in self._roles) or self._no_domain_holds()

    def possible(self) -> bool:
        """Tell whether a placement of all pods was found."""
        affinity, spread = self._one_affinity(), self._one_spread()
        if affinity:
            return any(self._holds(cell.kinds, affinity) for cell in self._cells(affinity))
        if spread is not None:
            return self._spread_in_turn(spread, worst=False)
        return False

    def may_get_stuck(self) -> bool:
        """Tell whether a way was found to place pods so that another pod of the job finds no node."""
        affinity, spread = self._one_affinity(), self._one_spread()
        if affinity:
            members = self._members(affinity)
            entered = (cell for cell in self._cells(affinity) if any(self._fits(cell.kinds, role) for role in members))
            return self._closed(affinity) and any(not self._holds(cell.kinds, affinity) for cell in entered)
        return spread is not None and not self._spread_in_turn(spread, worst=True)

    def _finds_places(self, role: int, proven: set[int]) -> bool:
        self._budget.spend(len(self._problem.kinds))
        rules = self._problem.rules[role]
        if rules.anti_affinity or len(rules.spread) > 1 or (rules.affinity and rules.spread):
            return False
        if rules.spread:
            return self._spread_resists(role, rules.spread[0])
        if rules.affinity:
            return self._affinity_resists(role, rules.affinity, proven)
        return self._resists(role, self._problem.kinds)

    def _resists(self, role: int, kinds: Mapping[NodeClass, int]) -> bool:
        """Tell whether the other pods are too few to fill all of these nodes, so that the role still finds room."""
        return shutting_out(self._case, role, self._problem.case_of(kinds).slots, self._budget) is None

    def _affinity_resists(self, role: int, affinity: AffinityRule, proven: set[int]) -> bool:
        counted = self._counted(affinity)
        before = {kind: number for kind, number in self._problem.kinds.items() if self._meets_affinity(kind, affinity)}
        if self._resists(role, before):
            return True
        others = {other for other in counted & proven if other != role and self._always_counted(other, affinity)}
        if not affinity.first and not others:
            return False
        if len(affinity.censuses) > 1 and not all(self._always_counted(other, affinity) for other in counted):
            return False
        entered = [found for found in self._cells(affinity) if any(self._fits(found.kinds, other) for other in counted)]
        closed = [found for found in entered if not self._resists(role, found.kinds)]
        # The first counted pod chooses the domain. The role fits if the other pods cannot fill any domain that this pod
        # can choose. The role also fits if another role has too many pods for the domains that can be filled: one of
        # these pods then opens a further domain.
        return bool(entered) and (not closed or any(self._outnumber(other, closed) for other in others))

    def _outnumber(self, role: int, cells: Sequence[_Cell]) -> bool:
        """Tell whether the role has more pods than fit into these domains."""
        room = sum(
            self._case.room(kind.slot.free, kind.slot, role) * n * cell.times
            for cell in cells
            for kind, n in cell.kinds.items()
        )
        return room < self._problem.counts[role]

    def _counted(self, affinity: AffinityRule) -> set[int]:
        roles = frozenset[int]().union(*(self._problem.censuses[census].roles for census in affinity.censuses))
        return {role for role in roles if self._problem.counts[role]}

    def _always_counted(self, role: int, affinity: AffinityRule) -> bool:
        kinds = [kind for kind in self._problem.kinds if kind.slot.admits[role]]
        return all(kind.counted[census] for kind in kinds for census in affinity.censuses)

    def _meets_affinity(self, kind: NodeClass, affinity: AffinityRule) -> bool:
        return all(self._before(kind, census) > 0 for census in affinity.censuses)

    def _before(self, kind: NodeClass, census: int) -> int:
        domain = self._domain(kind, census)
        if domain is None:
            return kind.values[census]
        return self._problem.values[census][domain] if domain >= 0 else NOWHERE

    def _domain(self, kind: NodeClass, census: int) -> int | None:
        """Return the index of these nodes' domain: -1 if they have none, None if each node is its own domain."""
        key = self._problem.censuses[census].key
        return kind.domains[self._problem.shared.index(key)] if key in self._problem.shared else None

    def _cells_of(self, affinity: AffinityRule) -> list[_Cell]:
        """Return the topology domains of an affinity. One _Cell stands for all domains that are equal."""
        cells: dict[object, dict[NodeClass, int]] = {}
        times: Counter[object] = Counter()
        for kind, number in self._problem.kinds.items():
            if not all(kind.counted[census] for census in affinity.censuses):
                continue
            domains = tuple(self._domain(kind, census) for census in affinity.censuses)
            if None in domains:
                cells[kind] = {kind: 1}
                times[kind] = number
            else:
                cells.setdefault(domains, {})[kind] = number
                times[domains] = 1
        alike: dict[object, _Cell] = {}
        for name, kinds in cells.items():
            slots = frozenset(self._problem.case_of(kinds).slots.items())
            known = alike.get(slots)
            alike[slots] = _Cell(kinds, times[name] + (known.times if known else 0))
        return list(alike.values())

    def _fits(self, cell: Mapping[NodeClass, int], role: int) -> bool:
        return any(self._case.room(kind.slot.free, kind.slot, role) for kind in cell)

    def _room(self, role: int) -> int:
        """Return an upper bound for how many pods of the role fit."""
        rules = self._problem.rules[role]
        rooms = [self._case.room_in_all(role)]
        for census in rules.anti_affinity:
            if self._problem.censuses[census].roles == {role}:
                rooms.append(self._domains_with_room(role, census))
        rooms += [self._spread_room(role, rule) for rule in rules.spread if rule.own]
        return min(rooms)

    def _domains_with_room(self, role: int, census: int) -> int:
        """Count the pods that fit: one per domain, but as many as have room on each node without the topology key."""
        found: dict[object, int] = {}
        for kind, number in self._problem.kinds.items():
            room, domain = self._case.room(kind.slot.free, kind.slot, role), self._domain(kind, census)
            if not kind.counted[census]:
                found[kind] = room * number
            elif domain is None:
                found[kind] = min(room, 1) * number
            else:
                found[domain] = max(found.get(domain, 0), min(room, 1))
        return sum(found.values())

    def _no_domain_holds(self) -> bool:
        """Tell whether the pods of some affinity must share one domain, but no domain has room for all of them."""
        groups = {rule for role in self._roles if (rule := self._problem.rules[role].affinity)}
        return any(
            self._closed(affinity) and not any(self._holds(cell.kinds, affinity) for cell in self._cells(affinity))
            for affinity in groups
        )

    def _closed(self, affinity: AffinityRule) -> bool:
        """Tell whether all pods that the affinity selects have this affinity too, and so must share one domain."""
        rules = self._problem.rules
        return affinity.first and all(rules[role].affinity == affinity for role in self._counted(affinity))

    def _members(self, affinity: AffinityRule) -> list[int]:
        return [role for role in self._roles if self._problem.rules[role].affinity == affinity]

    def _holds(self, cell: Mapping[NodeClass, int], affinity: AffinityRule) -> bool:
        """Tell whether all pods fit if the pods with this affinity are in this domain. Other rules are ignored."""
        members = self._members(affinity)
        inside = self._problem.case_of(cell).slots
        if any(
            sum(self._case.room(slot.free, slot, role) * number for slot, number in inside.items())
            < self._problem.counts[role]
            for role in members
        ):
            return False
        slots = Counter(self._case.slots)
        for slot, number in inside.items():
            slots[slot] -= number
        found: Counter[Slot] = Counter(inside)
        for slot, number in slots.items():
            admits = tuple(yes and role not in members for role, yes in enumerate(slot.admits))
            if number and any(admits):
                found[replace(slot, admits=admits)] += number
        most = packed(replace(self._case, slots=found), self._budget)
        return most is not None and most >= self._problem.counts[-1]

    def _one_affinity(self) -> AffinityRule | None:
        """Return the job's only rule if it is an affinity that lets the first pod go to any domain, otherwise None."""
        found = {rules for rules in self._problem.rules if rules != Rules()}
        stated = [each.affinity for each in found if each.affinity and each == Rules(each.affinity)]
        return stated[0] if len(found) == len(stated) == 1 and stated[0].first else None

    def _one_spread(self) -> int | None:
        """If the job's only rule is a spread constraint of a role on its own pods, return the role, otherwise None."""
        ruled = [role for role in self._roles if self._problem.rules[role] != Rules()]
        if len(ruled) != 1:
            return None
        rules = self._problem.rules[ruled[0]]
        spreads = len(rules.spread) == 1 and rules == Rules(spread=rules.spread) and rules.spread[0].own
        return ruled[0] if spreads and self._all_counted(ruled[0], rules.spread[0]) else None

    def _all_counted(self, role: int, rule: SpreadRule) -> bool:
        return all(kind.counted[rule.census] for kind in self._problem.kinds if kind.slot.admits[role])

    def _domains(self, role: int, census: int) -> Counter[_Domain]:
        """Describe each domain of a spread constraint as a _Domain, and count the domains that are equal."""
        found: Counter[_Domain] = Counter()
        rooms: Counter[int] = Counter()
        for kind, number in self._problem.kinds.items():
            room, domain = self._case.room(kind.slot.free, kind.slot, role), self._domain(kind, census)
            if domain is None:
                found[_Domain(kind.values[census], room, kind.counted[census])] += number
            elif domain >= 0:
                rooms[domain] += room * number
        for domain, before in enumerate(self._problem.values[census]):
            found[_Domain(before, rooms[domain], self._problem.measured[census][domain])] += 1
        return found

    def _filled(self, domains: Mapping[_Domain, int], rule: SpreadRule, more: int = 0, loss: int = 0) -> int:
        """Return how many pods the domains hold at the end, when the smallest domain (with the fewest pods) is full.

        `more` is added to the number of pods in the smallest domain. `loss` is how much room other pods may take in the
        smallest domain.
        """
        full = [domain.before + max(0, domain.room - loss) for domain in domains if domain.measured]
        least = 0 if self._problem.censuses[rule.census].from_zero else min(full, default=0) + more
        return sum(
            max(0, min(domain.room, least + rule.max_skew - domain.before)) * number
            for domain, number in domains.items()
        )

    def _others_counted(self, role: int, rule: SpreadRule) -> int:
        counted = self._problem.censuses[rule.census].roles - {role}
        return sum(self._problem.counts[other] for other in counted)

    def _spread_room(self, role: int, rule: SpreadRule) -> int:
        """Return an upper bound for the role's pods that a spread constraint admits, in any scheduling order."""
        if not self._all_counted(role, rule):
            return MANY
        return self._filled(self._domains(role, rule.census), rule, more=self._others_counted(role, rule))

    def _spread_resists(self, role: int, rule: SpreadRule) -> bool:
        """Tell whether a spread constraint admits all pods of the role, wherever the other pods are.

        When the constraint admits no further pod, the domain with the fewest pods is full, as it would otherwise admit
        a pod. Every other domain is then full, too, or it has `max_skew` more pods than that domain. The role loses at
        most one place to each counted pod of another role, plus the places whose resources other pods use.
        """
        if not rule.own or not self._all_counted(role, rule):
            return False
        counted = self._others_counted(role, rule)
        loss = self._loss(role)
        domains = self._domains(role, rule.census)
        return self._filled(domains, rule, loss=loss) - loss - counted >= self._problem.counts[role]

    def _loss(self, role: int) -> int:
        """Return an upper bound for how many pods of the role lose their place to other pods."""
        others = [other for other in self._roles if other != role]
        pods = sum(self._problem.counts[other] for other in others)
        if not pods:
            return 0
        self._budget.spend(2 * len(self._case.slots))
        requests = {admits: self._requested(others, admits) for admits in {slot.admits for slot in self._case.slots}}
        at_once = max((self._taken(slot, role, requests[slot.admits]) for slot in self._case.slots), default=0)
        if pods <= 1 or not at_once:
            return at_once
        most = max((self._case.room(slot.free, slot, role) for slot in self._case.slots), default=0)
        return sum(min(self._taken_by_one(role, other), most) * self._problem.counts[other] for other in others)

    def _requested(self, roles: Sequence[int], admits: Sequence[bool]) -> Vector:
        """Sum up the requests of all pods of these roles, except for roles whose pods the node does not admit."""
        counts = [self._problem.counts[role] * admits[role] for role in roles]
        requests = [self._problem.requests[role] for role in roles]
        return tuple(sum(map(int.__mul__, counts, amounts)) for amounts in zip(*requests, strict=True))

    def _taken(self, slot: Slot, role: int, request: Vector) -> int:
        """Return how many pods of the role no longer fit on the node when pods with this sum of requests run there."""
        free = less(slot.free, request)
        return self._case.room(slot.free, slot, role) - max(0, self._case.room(free, slot, role))

    def _taken_by_one(self, role: int, other: int) -> int:
        pairs = zip(self._problem.requests[role], self._problem.requests[other], strict=True)
        return max(-(-theirs // ours) for ours, theirs in pairs if ours)

    def _spread_in_turn(self, role: int, *, worst: bool) -> bool:
        """Tell whether the role's pods all fit if one other pod takes its worst place (`worst`), or its best place.

        The scheduler places the other pod before the role's pods. If `worst` is false, also try to place the other pod
        last, in room that is then still free.
        """
        rule, count = self._problem.rules[role].spread[0], self._problem.counts[role]
        others = [other for other in self._roles if other != role]
        domains = self._domains(role, rule.census)
        if not others:
            return self._filled(domains, rule) >= count
        if sum(self._problem.counts[other] for other in others) > 1:
            return worst
        sums = [
            self._filled(domains - Counter([before]) + Counter([after]), rule)
            for before, after in self._with_other(role, rule, others[0], worst=worst)
        ]
        return bool(sums) and (min(sums) if worst else max(sums)) >= count

    def _with_other(self, role: int, rule: SpreadRule, other: int, *, worst: bool) -> set[tuple[_Domain, _Domain]]:
        """Return the changes that a pod of the other role can make to domains, as pairs (before, after)."""
        census = rule.census
        rooms = {
            kind: (
                self._case.room(kind.slot.free, kind.slot, role),
                self._case.room(less(kind.slot.free, self._problem.requests[other]), kind.slot, role),
            )
            for kind in self._problem.kinds
            if self._case.room(kind.slot.free, kind.slot, other)
        }
        in_all: Counter[int | None] = Counter()
        for kind, number in self._problem.kinds.items():
            in_all[self._domain(kind, census)] += self._case.room(kind.slot.free, kind.slot, role) * number
        found: set[tuple[_Domain, _Domain]] = set()
        nowhere = _Domain(0, 0, False)
        for kind, (room, left) in rooms.items():
            domain = self._domain(kind, census)
            if domain is not None and domain < 0:
                found.add((nowhere, nowhere))
                continue
            measured = kind.counted[census] if domain is None else self._problem.measured[census][domain]
            total = room if domain is None else in_all[domain]
            counts = other in self._problem.censuses[census].roles and kind.counted[census]
            before = _Domain(self._before(kind, census), total, measured)
            found.add((before, replace(before, before=before.before + counts, room=total - room + left)))
            if not worst:
                found.add((before, replace(before, room=total - room + left)))
        return found
