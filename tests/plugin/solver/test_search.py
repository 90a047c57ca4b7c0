"""Test the search without the bounds: it must find the same answers, in few steps.

The limit on its steps also limits the time that a search takes.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from distrain.solver.budget import Budget, ExhaustedError
from distrain.solver.decide import decide
from distrain.solver.node_classes import MANY_SUMS, _sums, compact
from distrain.solver.packing import Vectors
from distrain.solver.problem import Affinity, Node, Role
from distrain.solver.prune import Pruning
from distrain.solver.reduce import reduced
from distrain.solver.search import WALKS, Search
from distrain.solver.states import State, States
from tests.plugin.solver.scheduling import outcomes, question
from tests.plugin.solver.small_jobs import WORKERS, Meter, launcher_role, spread_role, worker_role, zone


def _search(nodes: list[Node], *roles: Role, budget: Budget | None = None) -> Search:
    return Search(compact(nodes, reduced(nodes, roles, roles[-1])), budget or Budget(10**6))


def _ends(search: Search) -> tuple[bool, bool]:
    """Return two facts: whether the scheduler can get stuck, and whether it can place all pods."""
    return search.reaches(stuck=True), search.reaches(stuck=False)


def _end(nodes: list[Node], role: Role) -> bool | None:
    """Tell how the scheduling ends, as far as the pruning knows this before any pod is placed (see Pruning.end)."""
    states = States(compact(nodes, reduced(nodes, [role], role)), Budget(10**6))
    return Pruning(states).end(states.start())


@pytest.mark.parametrize(("key", "most"), [("zone", 4), ("host", 2)])
def test_equal_nodes_of_a_domain_take_the_pods_of_an_affinity_together(key: str, most: int) -> None:
    nodes = zone("a", 2, 2) + zone("b", 2)
    packed = replace(worker_role(nodes, most), affinity=Affinity((key,), WORKERS))

    assert _search(nodes, packed).reaches(stuck=False)
    assert not _search(nodes, replace(packed, count=most + 1)).reaches(stuck=False)


def test_spread_over_the_servers_only_does_not_limit_the_workers() -> None:
    nodes = [*zone("a", 8), Node("a1", {"pods": 1, "cpu": 1}, {"zone": "a"}), *zone("b", 8)]
    server = Role("server", 1, {"pods": 1, "cpu": 1}, frozenset({"a1"}))
    workers = spread_role(nodes, 16, frozenset({"server"}))

    assert _ends(_search(nodes, server, workers)) == (False, True)


@pytest.mark.parametrize("keys", [("zone", "rack"), ("rack", "zone")])
def test_room_in_every_zone_does_not_help_if_the_workers_spread_over_racks_too(keys: tuple[str, ...]) -> None:
    racks = {"a0": "x", "b0": "x", "a1": "y"}
    nodes = [replace(node, labels={**node.labels, "rack": racks[node.name]}) for node in zone("a", 8, 2) + zone("b", 8)]
    workers = spread_role(nodes, 5)
    (rule,) = workers.spread
    workers = replace(workers, spread=tuple(replace(rule, key=key) for key in keys))

    # If the launcher takes one of the two places in rack y, this rack gets one worker, so rack x may get only two.
    assert _ends(_search(nodes, launcher_role(nodes), workers)) == (True, True)


def test_full_zone_that_a_spread_constraint_ignores_does_not_limit_the_workers() -> None:
    nodes = zone("a", 8, 8) + zone("b", 8) + zone("c", 0)
    workers = spread_role(nodes, 3)
    (rule,) = workers.spread
    ignoring = replace(rule, eligible=rule.eligible - {"c0"})

    # No worker fits in zone c. If the constraint does not ignore this zone, each other zone may get only one worker.
    assert _end(nodes, replace(workers, spread=(ignoring,))) is False
    assert _end(nodes, workers) is True


def test_search_agrees_with_every_schedule() -> None:
    for seed in range(5000, 5600):
        nodes, roles = question(random.Random(seed), nodes=4, pods=5)

        assert _ends(_search(nodes, *roles)) == outcomes(nodes, roles), seed


def test_walks_end_once_both_outcomes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = zone("a", 2) + zone("b", 2)
    near = replace(launcher_role(nodes), affinity=Affinity(("zone",), WORKERS))
    walks = 0
    walk = Search._walk

    def counted(search: Search, state: State, chance: random.Random) -> bool:
        nonlocal walks
        walks += 1
        return walk(search, state, chance)

    monkeypatch.setattr(Search, "_walk", counted)

    assert _search(nodes, near, worker_role(nodes, 2)).walks() == {True, False}
    assert 1 < walks < WALKS
    walks = 0
    assert _search(nodes, worker_role(nodes, 5)).walks() == {True}
    assert walks == 1


def test_steps_of_a_search_stay_the_same() -> None:
    """If the search needed more steps, the check would leave more jobs undecided.

    If a change of the code saves steps, update the number in this test.
    """
    meter = Meter()
    # In the last case, placing another pod in a domain that already contains one does not change the state.
    for seed in (*range(6000, 6100), 6447):
        nodes, roles = question(random.Random(seed), nodes=5, pods=6)
        _ends(_search(nodes, *roles, budget=meter))

    assert meter.steps == 62434 + 1719


@pytest.mark.parametrize(("seed", "fewest"), [(389, 951), (1347, 996)])
def test_fewest_steps_that_decide_a_job_stay_the_same(seed: int, fewest: int) -> None:
    """For these seeds, a job has three roles, and random placements alone do not decide whether it fits.

    Each of the searches may use only its share of the steps.
    """
    nodes, roles = question(random.Random(seed), nodes=5, pods=9)
    problem = compact(nodes, reduced(nodes, roles, roles[-1]))

    def decided(steps: int) -> bool:
        found = decide(problem, Budget(steps))
        return found.certain is not None and found.possible is not None

    assert (decided(fewest - 1), decided(fewest)) == (False, True)


def test_search_takes_up_to_4096_mixes_of_pods() -> None:
    nodes = zone("a", 80)

    def vectors(servers: int) -> Vectors:
        names = frozenset({"a0"})
        roles = [Role("server", servers, {"cpu": 1}, names), Role("worker", 63, {"cpu": 2}, names)]
        return Vectors(compact(nodes, roles), Budget(10**6))

    vectors(63)
    with pytest.raises(ExhaustedError):
        vectors(64)


def test_amounts_are_rounded_only_while_their_sums_are_few() -> None:
    assert _sums([(1, MANY_SUMS - 1)]) == {*range(MANY_SUMS)}
    assert _sums([(1, MANY_SUMS)]) == set()
