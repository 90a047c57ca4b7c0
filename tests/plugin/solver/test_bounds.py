"""Test the answers that the solver's bounds give without a search.

If a job is too large for the search, only the bounds can give an answer.
"""

from __future__ import annotations

import random

from msgspec.structs import replace

from distrain.solver import bounds
from distrain.solver.bounds import Decision
from distrain.solver.budget import Budget
from distrain.solver.node_classes import compact
from distrain.solver.problem import Affinity, AntiAffinity, Node, Role
from distrain.solver.reduce import reduced
from tests.plugin.solver.scheduling import question
from tests.plugin.solver.small_jobs import WORKERS, Meter, launcher_role, spread_role, worker_role, zone

UNCERTAIN, IMPOSSIBLE = Decision(False, True), Decision(False, False)


def _decide(nodes: list[Node], *roles: Role, budget: int = 1_000_000) -> Decision:
    return bounds.decide(compact(nodes, reduced(nodes, roles, roles[-1])), Budget(budget))


def test_more_pods_than_zones_are_impossible_with_anti_affinity_by_zone() -> None:
    nodes = zone("a", 8, 8) + zone("b", 8, 8)
    apart = replace(worker_role(nodes, 3), anti_affinity=(AntiAffinity("zone", WORKERS),))

    assert _decide(nodes, apart) == IMPOSSIBLE
    assert _decide(nodes, replace(apart, count=2)).possible is not False


def test_node_in_no_zone_takes_any_number_of_pods_with_anti_affinity_by_zone() -> None:
    nodes = zone("a", 8, 8) + zone("b", 8) + [replace(node, labels={}) for node in zone("c", 3, 2)]
    apart = replace(worker_role(nodes, 7), anti_affinity=(AntiAffinity("zone", WORKERS),))

    assert _decide(nodes, apart).possible is not False
    assert _decide(nodes, replace(apart, count=8)) == IMPOSSIBLE


def test_job_that_fits_in_the_larger_zone_only_is_possible_but_not_certain() -> None:
    nodes = zone("a", 4, 2) + zone("b", 4)
    packed = replace(worker_role(nodes, 6), affinity=Affinity(("zone",), WORKERS))

    assert _decide(nodes, packed) == UNCERTAIN
    assert _decide(nodes, launcher_role(nodes), replace(packed, count=5)) == UNCERTAIN


def test_roles_that_fit_in_no_zone_together_are_impossible_though_each_fits_alone() -> None:
    nodes = zone("a", 3) + zone("b", 3)
    near = Affinity(("zone",), WORKERS | {"launcher"})
    launcher, workers = (replace(role, affinity=near) for role in (launcher_role(nodes), worker_role(nodes, 3)))

    assert _decide(nodes, launcher, workers) == IMPOSSIBLE
    assert _decide(nodes, launcher, replace(workers, count=2)) == Decision(True, True)


def test_spread_that_just_fits_is_never_called_uncertain() -> None:
    nodes = zone("a", 4) + zone("b", 2)

    # A budget of 2 steps is too small to prove that all 5 workers are certain to find a node.
    assert _decide(nodes, spread_role(nodes, 5), budget=2) == Decision(None, True)
    assert _decide(nodes, spread_role(nodes, 5)) == Decision(True, True)


def test_launcher_that_the_workers_spread_counts_leaves_room_if_it_comes_last() -> None:
    nodes = zone("a", 4, 4) + zone("b", 2)
    workers = spread_role(nodes, 5, WORKERS | {"launcher"})

    # If the launcher is placed first, only 4 workers find a node: the launcher is in zone a, or in zone b together with
    # one worker.
    assert _decide(nodes, launcher_role(nodes), workers) == UNCERTAIN
    assert _decide(nodes, launcher_role(nodes), replace(workers, count=4)).certain is not False


def test_pods_near_others_of_the_cluster_are_certain_where_their_zone_has_room() -> None:
    nodes = zone("a", 4, 2) + zone("b", 4)
    near = Affinity(("zone",), WORKERS, {"zone": frozenset({"a"})})
    workers = replace(worker_role(nodes, 5), affinity=near)

    assert _decide(nodes, launcher_role(nodes), workers) == Decision(True, True)
    assert _decide(nodes, launcher_role(nodes), replace(workers, count=7)).certain is not True


def test_steps_of_the_bounds_stay_the_same() -> None:
    """If the bounds needed more steps, the check would leave more jobs undecided.

    If a change of the code saves steps, update the number in this test.
    """
    meter = Meter()
    for seed in range(6000, 6100):
        nodes, roles = question(random.Random(seed), nodes=5, pods=6)
        bounds.decide(compact(nodes, reduced(nodes, roles, roles[-1])), meter)

    assert meter.steps == 6148


def test_launcher_takes_no_more_places_than_on_its_one_node() -> None:
    nodes = [replace(node, free={**node.free, "cpu": 17}) for node in zone("a", 2, 2) + zone("b", 2, 2)]
    names = frozenset(node.name for node in nodes)
    launcher = Role("launcher", 1, {"pods": 1, "cpu": 9}, names)
    workers = replace(spread_role(nodes, 7, skew=2), request={"pods": 1, "gpu": 1, "cpu": 8})

    # The launcher requests 9 CPUs. The node on which it runs still has room for one worker.
    assert _decide(nodes, launcher, workers).certain
