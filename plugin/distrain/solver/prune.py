"""Shorten the search: detect states whose outcome is known.

A state is hopeless if the remaining pods do not fit even on all nodes that the rules admit now or may admit later. A
state is assured if every remaining pod is certain to find a node. The search does not continue from assured or hopeless
states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from distrain.solver.node_classes import MANY, Rules, SpreadRule
from distrain.solver.states import Place, Spot, State, States


class Pruning:
    def __init__(self, states: States) -> None:
        self._states, self._problem, self._vectors = states, states.problem, states.vectors

    def end(self, state: State) -> bool | None:
        """Tell how the scheduling ends from this state on, or return None if this is unknown.

        Return True if the remaining pods cannot all be placed. Return False if they are all placed, whatever the
        scheduler does.
        """
        if self._hopeless(state):
            return True
        return False if self._assured(state) else None

    def _hopeless(self, state: State) -> bool:
        """Tell whether the remaining pods do not fit even on all nodes that the rules admit now or may admit later."""
        open_to = self._openable(state)
        places = [
            (place, self._vectors.within(place.spot.takes, state.left, roles)) for place, roles in open_to.items()
        ]
        if sum(self._vectors.most(takes, None) * place.number for place, takes in places) < sum(state.left):
            return True
        return any(self._room(state, role, places) < left for role, left in enumerate(state.left) if left)

    def _openable(self, state: State) -> dict[Place, list[int]]:
        """For each node, return the roles that the node may admit after further pods have been placed."""
        places = [Place(cell, spot, number) for cell, spots in enumerate(state.cells) for spot, number in spots]
        found: dict[Place, list[int]] = {place: [] for place in places}
        opened: set[tuple[int, int, Spot | None]] = set()
        waiting = [(place, role) for role, left in enumerate(state.left) if left for place in places]
        waiting = [
            (place, role)
            for place, role in waiting
            if place.spot.takes >> self._vectors.strides[role] & 1
            and not any(
                self._states.value(state, c, place.cell, place.spot) > 0
                for c in self._problem.rules[role].anti_affinity
            )
        ]
        first = [
            rules.affinity is not None and rules.affinity.first and not self._states.any_meets_affinity(state, rules)
            for rules in self._problem.rules
        ]
        while True:
            ready = [
                (place, role)
                for place, role in waiting
                if first[role] or self._may_meet(state, self._problem.rules[role], place, opened)
            ]
            for place, role in ready:
                found[place].append(role)
                opened.update(self._opened(place, role))
            if not ready or len(ready) == len(waiting):
                return found
            done = set(ready)
            waiting = [pair for pair in waiting if pair not in done]

    def _may_meet(self, state: State, rules: Rules, place: Place, opened: set[tuple[int, int, Spot | None]]) -> bool:
        return rules.affinity is None or all(
            self._states.value(state, census, place.cell, place.spot) > 0
            or self._states.domain(census, place) in opened
            for census in rules.affinity.censuses
        )

    def _opened(self, place: Place, role: int) -> Iterator[tuple[int, int, Spot | None]]:
        for number, census in enumerate(self._problem.censuses):
            if role in census.roles:
                yield self._states.domain(number, place)

    def _room(self, state: State, role: int, places: Sequence[tuple[Place, int]]) -> int:
        """Return an upper bound for how many pods of the role still fit."""
        rules = self._problem.rules[role]
        rooms = [(place, self._vectors.most(takes, role)) for place, takes in places]
        found = sum(most * place.number for place, most in rooms)
        for census in rules.anti_affinity:
            if self._problem.censuses[census].roles == {role}:
                found = min(found, self._by_domain(rooms, census, lambda _, most: min(most, 1)))
        for rule in rules.spread:
            if rule.own and self._states.binds(state, rule.census):
                found = min(found, self._spread_room(state, rooms, rule, places))
        if (
            rules.affinity
            and rules.affinity.first
            and not self._states.any_meets_affinity(state, rules)
            and self._closed_group(state, rules)
        ):
            found = min(found, self._largest_domain(rooms, rules))
        return found

    def _spread_room(
        self,
        state: State,
        rooms: Sequence[tuple[Place, int]],
        rule: SpreadRule,
        places: Sequence[tuple[Place, int]],
    ) -> int:
        """Return an upper bound for how many pods of the role a spread constraint still admits.

        The bound assumes that the domain with the fewest counted pods gets as many more as fit.
        """
        census = self._problem.censuses[rule.census]
        least = 0 if census.from_zero else self._highest_least(state, rule.census, places)

        def allowed(place: Place, most: int) -> int:
            before = self._states.value(state, rule.census, place.cell, place.spot)
            return max(0, min(most, least + rule.max_skew - before))

        return self._by_domain(rooms, rule.census, allowed)

    def _highest_least(self, state: State, number: int, places: Sequence[tuple[Place, int]]) -> int:
        """Return an upper bound for the smallest count of pods that a domain has when all pods are placed."""
        census, key = self._problem.censuses[number], self._states.keys[number]
        more: Counter[int] = Counter()
        highest = [MANY]
        for place, takes in places:
            most = self._vectors.most(self._vectors.within(takes, state.left, sorted(census.roles)), None)
            counts = self._states.counts(place.spot, number)
            if key is None:
                highest += [place.spot.values[number] + most] if counts else []
            elif counts:
                more[self._states.domain(number, place)[1]] += most * place.number
        # If each node is its own domain, `state.counts` has no numbers for this Census.
        flags = self._problem.measured[number]
        highest += [value + more[d] for d, value in enumerate(state.counts[number]) if flags[d]]
        return min(highest)

    def _by_domain(self, rooms: Sequence[tuple[Place, int]], census: int, allowed: Callable[[Place, int], int]) -> int:
        """Sum up the room of all domains, after the function `allowed` has reduced the room of each domain.

        On nodes whose pods are not counted, `allowed` does not apply.
        """
        if self._states.keys[census] is None:
            return sum(
                (allowed(place, most) if self._states.counts(place.spot, census) else most) * place.number
                for place, most in rooms
            )
        total = 0
        domains: dict[object, tuple[Place, int]] = {}
        for place, most in rooms:
            domain = self._states.domain(census, place)
            if not self._states.counts(place.spot, census):
                total += most * place.number
            else:
                before = domains.get(domain, (place, 0))[1]
                domains[domain] = (place, before + most * place.number)
        return total + sum(allowed(place, most) for place, most in domains.values())

    def _closed_group(self, state: State, rules: Rules) -> bool:
        """Tell whether each remaining pod that the affinity selects also has this affinity itself."""
        assert rules.affinity
        return all(
            self._problem.rules[role].affinity == rules.affinity
            for census in rules.affinity.censuses
            for role in self._problem.censuses[census].roles
            if state.left[role]
        )

    def _largest_domain(self, rooms: Sequence[tuple[Place, int]], rules: Rules) -> int:
        assert rules.affinity
        own = any(self._states.keys[census] is None for census in rules.affinity.censuses)
        found: Counter[object] = Counter()
        for place, most in rooms:
            domains = place if own else tuple(self._states.domain(census, place) for census in rules.affinity.censuses)
            found[domains] += most if own else most * place.number
        return max(found.values(), default=0)

    def _assured(self, state: State) -> bool:
        """Tell whether every remaining pod finds a node, wherever the other pods are placed."""
        return all(
            self._kept_open(state, role, self._problem.rules[role]) for role, left in enumerate(state.left) if left
        )

    def _kept_open(self, state: State, role: int, rules: Rules) -> bool:
        """Tell whether the remaining pods are too few to fill or block all nodes that the role's rules allow."""
        binding = [rule.census for rule in rules.spread if self._states.binds(state, rule.census)]
        if len(binding) > 1:
            return False
        nodes = [
            (Place(cell, spot, number), self._vectors.fewest_to_close(spot.takes, role, state.left))
            for cell, spots in enumerate(state.cells)
            for spot, number in spots
            if spot.takes >> self._vectors.strides[role] & 1
            and self._states.allowed(state, replace(rules, spread=()), False, cell, spot)
        ]
        if not binding:
            return self._resists(state, role, rules, nodes)
        return self._smallest_resists(state, role, rules, binding[0], nodes)

    def _smallest_resists(
        self, state: State, role: int, rules: Rules, census: int, nodes: Sequence[tuple[Place, int]]
    ) -> bool:
        """Tell whether each domain that may end up with the fewest counted pods still has room for the role then."""
        if self._problem.censuses[census].from_zero:
            return False
        # In a canonical state the smallest of the counts is 0.
        limit = self._states.coming(census, state.left)
        if self._states.keys[census] is None:
            measured = {
                Place(cell, spot, number)
                for cell, spots in enumerate(state.cells)
                for spot, number in spots
                if self._states.counts(spot, census) and spot.values[census] <= limit
            }
            costs = dict(nodes)
            return all(
                place in costs and self._resists(state, role, rules, [(place._replace(number=1), costs[place])])
                for place in measured
            )
        domains: dict[int, list[tuple[Place, int]]] = {
            domain: []
            for domain, flag in enumerate(self._problem.measured[census])
            if flag and state.counts[census][domain] <= limit
        }
        for place, cost in nodes:
            domains.get(self._states.domain(census, place)[1], []).append((place, cost))
        return all(self._resists(state, role, rules, inside) for inside in domains.values())

    def _resists(self, state: State, role: int, rules: Rules, nodes: Sequence[tuple[Place, int]]) -> bool:
        """Tell whether some of these nodes keep room for the role, whatever places the other remaining pods take."""
        others = sum(state.left) - 1
        needed = sum(cost * place.number for place, cost in nodes)
        weights: list[int] = []
        blockers = 0
        for census in rules.anti_affinity:
            coming = self._states.coming(census, state.left) - (role in self._problem.censuses[census].roles)
            if not coming:
                continue
            blockers += coming
            sums: Counter[object] = Counter()
            for place, cost in nodes:
                if self._states.keys[census] is None:
                    weights += [cost] * place.number
                elif (domain := self._states.domain(census, place))[1] >= 0:
                    sums[domain] += cost * place.number
            weights += sums.values()
        heaviest = sorted(weights, reverse=True)[:blockers]
        return all(needed - sum(heaviest[:number]) > others - number for number in range(len(heaviest) + 1))
