"""Compare `decide` with a search over all orders and nodes, for pods with affinity or spread rules."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from distrain.solver import bounds
from distrain.solver.budget import Budget
from distrain.solver.capacity import Judgement, judge
from distrain.solver.node_classes import MANY, compact
from distrain.solver.pareto import Vector
from distrain.solver.problem import Affinity, AntiAffinity, Node, Role, TopologySpread
from distrain.solver.reduce import reduced
from distrain.solver.search import Search
from distrain.solver.states import Spot, State, States
from tests.plugin.solver.scheduling import outcomes, play, question
from tests.plugin.solver.small_jobs import WORKERS, launcher_role, spread_role, worker_role, zone


def _judge(nodes: list[Node], *roles: Role) -> Judgement:
    return judge(nodes, roles, roles[-1])


def _both(judgement: Judgement) -> tuple[bool, bool]:
    assert not judgement.undecided
    return judgement.certain, judgement.possible


@pytest.mark.parametrize(
    ("count", "certain", "possible"),
    [
        pytest.param(4, True, True, id="every-zone-holds-all"),
        pytest.param(6, False, True, id="the-smaller-zone-does-not"),
        pytest.param(7, False, False, id="no-zone-does"),
    ],
)
def test_first_worker_picks_the_zone_for_all(count: int, certain: bool, possible: bool) -> None:
    nodes = zone("a", 4, 2) + zone("b", 4)
    packed = replace(worker_role(nodes, count), affinity=Affinity(("zone",), WORKERS))

    assert _both(_judge(nodes, packed)) == (certain, possible)


def test_smaller_size_that_is_sure_is_found() -> None:
    nodes = zone("a", 4, 2) + zone("b", 4)
    packed = replace(worker_role(nodes, 6), affinity=Affinity(("zone",), WORKERS))

    assert _judge(nodes, packed) == Judgement(6, sure=4, most=6)
    assert _judge(nodes, replace(packed, count=9)) == Judgement(9, sure=4, most=6)


def test_pods_that_are_placed_already_pick_the_zone() -> None:
    nodes = zone("a", 4, 2) + zone("b", 4)
    affinity = Affinity(("zone",), WORKERS, {"zone": frozenset({"a"})})

    assert _both(_judge(nodes, replace(worker_role(nodes, 6), affinity=affinity))) == (True, True)
    assert _both(_judge(nodes, replace(worker_role(nodes, 7), affinity=affinity))) == (False, False)


def test_node_without_the_key_is_near_nothing() -> None:
    nodes = [replace(node, labels={}) for node in zone("a", 4)] + zone("b", 2)
    affinity = Affinity(("zone",), WORKERS)

    assert _both(_judge(nodes, replace(worker_role(nodes, 2), affinity=affinity))) == (True, True)
    assert _both(_judge(nodes, replace(worker_role(nodes, 3), affinity=affinity))) == (False, False)


def test_launcher_may_open_a_zone_that_is_too_small() -> None:
    nodes = zone("a", 4) + zone("b", 2)
    affinity = Affinity(("zone",), WORKERS | {"launcher"})
    workers = replace(worker_role(nodes, 3), affinity=affinity)

    assert _both(_judge(nodes, launcher_role(nodes[1:]), workers)) == (False, True)
    # The rule keeps workers away from node a until the launcher is on node a. While the launcher is not placed, the
    # workers may fill node b.
    assert _both(_judge(nodes, launcher_role(nodes[:1]), workers)) == (True, True)


@pytest.mark.parametrize(
    ("count", "certain", "possible"),
    [
        pytest.param(2, True, True, id="one-per-host"),
        pytest.param(3, False, False, id="more-than-hosts"),
    ],
)
def test_workers_with_anti_affinity_by_host_take_a_host_each(count: int, certain: bool, possible: bool) -> None:
    nodes = zone("a", 8, 8)
    anti_affinity = replace(worker_role(nodes, count), anti_affinity=(AntiAffinity("host", WORKERS),))

    assert _both(_judge(nodes, launcher_role(nodes), anti_affinity)) == (certain, possible)


def test_launcher_apart_from_the_workers_may_take_the_host_that_they_need() -> None:
    nodes = zone("a", 2, 1)
    launcher = replace(launcher_role(nodes), anti_affinity=(AntiAffinity("host", WORKERS),))
    workers = replace(worker_role(nodes, 2), anti_affinity=(AntiAffinity("host", frozenset({"launcher"})),))

    assert _both(_judge(nodes, launcher, workers)) == (False, True)
    assert _both(_judge(nodes, launcher, replace(workers, count=3))) == (False, False)
    assert _both(_judge(nodes, launcher, replace(workers, count=1))) == (True, True)


def test_launcher_apart_from_the_workers_leaves_the_other_host_to_any_number_of_them() -> None:
    most = MANY - 1
    nodes = [replace(node, free={"pods": most, "cpu": 1}) for node in zone("a", 1, 1)]
    launcher = replace(launcher_role(nodes), anti_affinity=(AntiAffinity("host", WORKERS),))
    workers = replace(worker_role(nodes, most), request={"pods": 1})

    assert _both(_judge(nodes, launcher, workers)) == (False, True)
    assert _both(_judge(nodes, launcher, replace(workers, count=most + 1))) == (False, False)


@pytest.mark.parametrize("key", ["host", "zone"])
def test_anti_affinity_of_one_pod_binds_both(key: str) -> None:
    nodes = zone("a", 2, 2) if key == "zone" else zone("a", 2)
    launcher = replace(launcher_role(nodes), anti_affinity=(AntiAffinity(key, WORKERS),))

    assert _both(_judge(nodes, launcher, worker_role(nodes, 1))) == (False, False)


def test_nothing_is_apart_on_a_node_without_the_key() -> None:
    nodes = [replace(node, labels={}) for node in zone("a", 2)]
    anti_affinity = replace(worker_role(nodes, 2), anti_affinity=(AntiAffinity("host", WORKERS),))

    assert _both(_judge(nodes, anti_affinity)) == (True, True)


def test_workers_with_anti_affinity_by_zone_take_a_zone_each() -> None:
    nodes = zone("a", 8, 8) + zone("b", 8)
    anti_affinity = replace(worker_role(nodes, 2), anti_affinity=(AntiAffinity("zone", WORKERS),))

    assert _both(_judge(nodes, anti_affinity)) == (True, True)
    assert _both(_judge(nodes, replace(anti_affinity, count=3))) == (False, False)


@pytest.mark.parametrize(
    ("count", "skew", "fits"),
    [
        pytest.param(5, 1, True, id="one-more-than-in-the-full-zone"),
        pytest.param(6, 1, False, id="two-more"),
        pytest.param(6, 2, True, id="two-more-are-allowed"),
    ],
)
def test_full_zone_limits_what_spreads_over_the_others(count: int, skew: int, fits: bool) -> None:
    nodes = zone("a", 8) + zone("b", 2)

    assert _both(_judge(nodes, spread_role(nodes, count, skew=skew))) == (fits, fits)


def test_too_few_zones_count_as_one_that_is_empty() -> None:
    nodes = zone("a", 8) + zone("b", 8)

    assert _both(_judge(nodes, spread_role(nodes, 2, domains=3))) == (True, True)
    assert _both(_judge(nodes, spread_role(nodes, 3, domains=3))) == (False, False)


def test_single_zone_needs_no_spreading() -> None:
    nodes = zone("a", 8)

    assert _both(_judge(nodes, spread_role(nodes, 8))) == (True, True)


def test_launcher_may_take_room_in_the_zone_that_is_smallest() -> None:
    nodes = zone("a", 8) + zone("b", 2)

    assert _both(_judge(nodes, launcher_role(nodes), spread_role(nodes, 5))) == (False, True)
    assert _both(_judge(nodes, launcher_role(nodes), spread_role(nodes, 3))) == (True, True)


def test_pods_that_are_in_a_zone_already_count() -> None:
    nodes = zone("a", 8) + zone("b", 8)
    (rule,) = spread_role(nodes, 1).spread
    workers = replace(worker_role(nodes, 3), spread=(replace(rule, present={"a": 3}),))

    # Zone a already has 3 pods. So 3 new pods may go to zone b, but no new pod may go to zone a.
    assert _both(_judge(nodes, replace(workers, nodes=frozenset({"b0"})))) == (True, True)
    assert _both(_judge(nodes, replace(workers, nodes=frozenset({"a0"})))) == (False, False)


def test_search_counts_with_a_zone_that_becomes_the_smallest() -> None:
    # The launcher may take the only place in zone b. Then zone a may have only one worker more than zone b.
    nodes = zone("a", 8) + zone("b", 1)
    (rule,) = spread_role(nodes, 1).spread
    workers = replace(worker_role(nodes, 3), spread=(replace(rule, present={"b": 1}),))

    search = Search(compact(nodes, reduced(nodes, [launcher_role(nodes), workers], workers)), Budget(1000))

    assert search.reaches(stuck=True)


@pytest.mark.parametrize("free", [pytest.param((2,), id="one-node"), pytest.param((1, 1), id="two-nodes")])
def test_launcher_waits_for_the_workers_that_it_has_to_be_near(free: tuple[int, ...]) -> None:
    nodes = zone("a", *free) + zone("b", *free)
    launcher = replace(launcher_role(nodes), affinity=Affinity(("zone",), WORKERS))

    # Two workers may fill one of the zones. Then the launcher, which must be near a worker, finds no place there.
    assert _both(_judge(nodes, launcher, worker_role(nodes, 2))) == (False, True)
    assert _both(_judge(nodes, launcher, worker_role(nodes, 1))) == (True, True)
    assert _both(_judge(nodes, launcher, replace(worker_role(nodes, 1), nodes=frozenset()))) == (False, False)


def test_roles_with_the_same_rules_are_merged() -> None:
    nodes = zone("a", 4, 2) + zone("b", 4)
    affinity = Affinity(("zone",), frozenset({"master", "worker"}))
    workers = replace(worker_role(nodes, 3), affinity=affinity)

    assert len(reduced(nodes, [replace(workers, name="master", count=1), workers], workers)) == 1
    assert _judge(nodes, replace(workers, name="master", count=1), workers) == Judgement(3, sure=3, most=3)


@pytest.mark.parametrize("hundred", range(4))
def test_judgement_agrees_with_every_schedule(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        nodes, roles = question(random.Random(seed), nodes=4, pods=5)

        judgement = judge(nodes, roles, roles[-1])

        ends = outcomes(nodes, roles)
        assert ends
        stuck, complete = ends
        assert (judgement.certain, judgement.possible, judgement.undecided) == (not stuck, complete, False), seed


def test_sizes_that_are_called_sure_or_possible_are() -> None:
    for seed in range(1000, 1200):
        nodes, roles = question(random.Random(seed), nodes=4, pods=5)

        judgement = judge(nodes, roles, roles[-1])

        for size in {judgement.sure, judgement.most or 0} - {0}:
            ends = outcomes(nodes, [*roles[:-1], replace(roles[-1], count=size)])
            assert ends
            assert size > judgement.sure or not ends[0], seed
            assert size > (judgement.most or 0) or ends[1], seed


def test_what_is_decided_without_a_search_holds() -> None:
    decided = 0
    for seed in range(2000, 2400):
        nodes, roles = question(random.Random(seed), nodes=4, pods=5)
        asked = compact(nodes, reduced(nodes, roles, roles[-1]))

        found = bounds.decide(asked, Budget(300_000))

        ends = outcomes(nodes, roles)
        assert ends
        assert found.certain in (None, not ends[0]), seed
        assert found.possible in (None, ends[1]), seed
        decided += found.certain is not None
    assert decided > 200


def test_search_that_runs_out_of_steps_claims_nothing_that_is_not_so() -> None:
    undecided = 0
    for seed in range(4000, 4200):
        nodes, roles = question(random.Random(seed), nodes=4, pods=5)

        judgement = judge(nodes, roles, roles[-1], budget=30)

        ends = outcomes(nodes, roles)
        assert ends
        assert not judgement.certain or not ends[0], seed
        assert not judgement.possible or ends[1], seed
        assert judgement.undecided or (judgement.certain, judgement.possible) == (not ends[0], ends[1]), seed
        undecided += judgement.undecided
    assert undecided > 20


def test_larger_questions_hold_against_random_schedules() -> None:
    for seed in range(3000, 3040):
        chance = random.Random(seed)
        nodes, roles = question(chance, nodes=12, pods=14)

        judgement = judge(nodes, roles, roles[-1], budget=20_000)

        ends = {play(nodes, roles, chance) for _ in range(5)}
        assert not judgement.certain or ends == {True}, seed
        assert judgement.possible or judgement.undecided or ends == {False}, seed


def _unlike(count: int, seed: int) -> list[Node]:
    """Return nodes in three zones and ten racks. Their free amounts differ."""
    chance = random.Random(seed)
    return [
        Node(
            f"n{number}",
            {"pods": chance.randint(1, 6), "cpu": chance.randint(1, 60), "memory": chance.randint(1, 60)},
            {"zone": f"z{number % 3}", "rack": f"r{chance.randrange(10)}"},
        )
        for number in range(count)
    ]


def test_budget_bounds_the_places_visited_by_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = _unlike(250, seed=0)
    names = frozenset(node.name for node in nodes)
    spread = tuple(TopologySpread(key, 1, WORKERS, names) for key in ("zone", "rack"))
    workers = Role("worker", 200, {"pods": 1, "cpu": 7, "memory": 3}, names, spread=spread)
    visited = 0
    canonical = States._canonical

    def counted(states: States, left: Vector, counts: list[Vector], cells: list[Counter[Spot]]) -> State:
        nonlocal visited
        visited += sum(map(len, cells))
        return canonical(states, left, counts, cells)

    monkeypatch.setattr(States, "_canonical", counted)

    judgement = judge(nodes, [workers], workers, budget=300_000)

    assert judgement.undecided
    assert visited < 300_000


HOSTS = 600
LARGE = [
    Node(
        f"n{n}",
        {"pods": 110, "gpu": 8, "cpu": 90 + n % 7},
        {"zone": f"z{n % 3}", "rack": f"r{n % 20}", "host": f"n{n}"},
    )
    for n in range(HOSTS)
]
ALL = frozenset(node.name for node in LARGE)


@pytest.mark.parametrize(
    ("rules", "count", "certain", "possible"),
    [
        pytest.param({"affinity": Affinity(("zone",), WORKERS)}, 399, True, True, id="packed-in-a-zone"),
        pytest.param({"affinity": Affinity(("zone",), WORKERS)}, 401, False, False, id="more-than-a-zone"),
        pytest.param({"affinity": Affinity(("rack",), WORKERS)}, 60, True, True, id="packed-in-a-rack"),
        pytest.param({"anti_affinity": (AntiAffinity("host", WORKERS),)}, 600, True, True, id="one-per-host"),
        pytest.param({"anti_affinity": (AntiAffinity("host", WORKERS),)}, 601, False, False, id="more-than-hosts"),
        pytest.param({"spread": (TopologySpread("zone", 1, WORKERS, ALL),)}, 1200, True, True, id="spread-over-zones"),
        pytest.param(
            {"spread": (TopologySpread("zone", 1, WORKERS, ALL),)}, 1201, False, False, id="more-than-all-zones"
        ),
        pytest.param({"spread": (TopologySpread("host", 1, WORKERS, ALL),)}, 1100, True, True, id="spread-over-hosts"),
    ],
)
@pytest.mark.parametrize("launcher", [0, 1])
def test_jobs_of_common_shapes_are_decided_at_any_size(
    rules: dict[str, object], count: int, certain: bool, possible: bool, launcher: int
) -> None:
    workers = Role("worker", count, {"pods": 1, "gpu": 4, "cpu": 8}, ALL, **rules)  # type: ignore[arg-type]

    judgement = _judge(LARGE, Role("launcher", launcher, {"pods": 1, "cpu": 1}, ALL), workers)

    assert _both(judgement) == (certain, possible)


def test_launcher_near_workers_is_decided_at_any_size() -> None:
    launcher = Role("launcher", 1, {"pods": 1, "cpu": 1}, ALL, Affinity(("host",), WORKERS))

    assert _both(_judge(LARGE, launcher, Role("worker", 500, {"pods": 1, "gpu": 4}, ALL))) == (True, True)
