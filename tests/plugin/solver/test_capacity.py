"""Test how many pods fit into the free resources.

The count `sure` must be right for every order in which the pods are placed.
"""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from distrain.scheduler.node_resources_fit import insufficient
from distrain.solver.budget import BUDGET
from distrain.solver.capacity import Judgement, beside, copies, judge, room, with_pod
from distrain.solver.pareto import fewest, most
from distrain.solver.problem import AntiAffinity, Node, Role
from tests.plugin.solver.small_jobs import Meter

LAUNCHER = {"pods": 1, "cpu": 1}


def _node(name: str, *, pods: int = 110, **free: int) -> Node:
    return Node(name, {"pods": pods, **free})


def _job(nodes: list[Node], *, workers: int, launcher: dict[str, int] = LAUNCHER, **request: int) -> tuple[Role, Role]:
    names = frozenset(node.name for node in nodes)
    return Role("launcher", 1, launcher, names), Role("worker", workers, {"pods": 1, **request}, names)


def _judge(nodes: list[Node], *roles: Role, budget: int = BUDGET) -> Judgement:
    """Judge the roles. The last of the roles is the main role."""
    return judge(nodes, roles, roles[-1], budget)


def test_worker_cannot_be_split_between_nodes() -> None:
    # 7 GPUs are free in total, but no node has 5 free GPUs.
    nodes = [_node("a", gpu=4, cpu=9), _node("b", gpu=3, cpu=9)]

    assert _judge(nodes, *_job(nodes, workers=1, gpu=5)).most == 0


@pytest.mark.parametrize(
    ("workers", "gpus"),
    [
        pytest.param(1, 4, id="fills-one-node"),
        pytest.param(3, 2, id="spreads-over-both"),
        pytest.param(100, 0, id="cpu-only"),
    ],
)
def test_job_that_fits_in_any_order_is_certain(workers: int, gpus: int) -> None:
    nodes = [_node("a", gpu=4, cpu=9), _node("b", gpu=3, cpu=9)]

    assert _judge(nodes, *_job(nodes, workers=workers, gpu=gpus)).certain


def test_the_scarcest_resource_counts() -> None:
    node = _node("a", gpu=8, cpu=6, memory=100)
    _, workers = _job([node], workers=1, gpu=1, cpu=2, memory=10)

    assert copies(node, workers) == 3


def test_pod_slots_count_even_for_pods_that_ask_for_nothing() -> None:
    node = _node("a", pods=2)
    _, workers = _job([node], workers=5)

    assert copies(node, workers) == 2
    assert insufficient(node, workers) == ["Too many pods"]


def test_node_overcommitted_on_another_resource_takes_the_pod() -> None:
    node = _node("a", gpu=4, memory=-5)
    _, workers = _job([node], workers=1, gpu=4)

    assert copies(node, workers) == 1


def test_node_overcommitted_on_a_requested_resource_holds_no_pod() -> None:
    node = _node("a", gpu=-2)
    _, workers = _job([node], workers=1, gpu=1)

    assert copies(node, workers) == 0
    assert insufficient(node, workers) == ["Insufficient gpu"]


def test_only_what_is_short_for_one_more_is_named() -> None:
    node = _node("a", gpu=3, cpu=4, memory=5)
    _, workers = _job([node], workers=9, gpu=2, cpu=2, memory=3)

    assert insufficient(node, workers) == ["Insufficient gpu", "Insufficient memory"]


def test_launcher_is_best_placed_where_it_costs_no_worker() -> None:
    nodes = [_node("a", gpu=2, cpu=2), _node("b", gpu=0, cpu=2), _node("c", gpu=9, cpu=0)]
    launcher, workers = _job(nodes, workers=2, gpu=1, cpu=1)

    left, unplaced = beside(nodes, [launcher], workers)

    assert [node.free["cpu"] for node in left] == [2, 1, 0]
    assert unplaced is None
    assert beside(nodes[2:], [launcher], workers) == (nodes[2:], launcher)


def test_node_that_does_not_admit_the_role_holds_none() -> None:
    role = Role("worker", 1, {"pods": 1}, frozenset({"other"}))

    assert room([_node("a")], role) == 0


def test_launcher_that_may_take_a_workers_place_leaves_it_open() -> None:
    # If the launcher is on node a, it uses the CPU that a worker needs. If the launcher is on node b, which has no
    # GPUs, it uses nothing that a worker needs.
    nodes = [_node("a", gpu=2, cpu=2), _node("b", gpu=0, cpu=2)]
    judgement = _judge(nodes, *_job(nodes, workers=2, gpu=1, cpu=1))

    assert judgement.possible
    assert not judgement.certain
    assert (judgement.sure, judgement.most) == (1, 2)


def test_workers_that_may_shut_the_launcher_out_leave_it_open() -> None:
    # If node a gets one worker and node b gets two, no node has 2 CPUs left for the launcher.
    nodes = [_node("a", cpu=2), _node("b", cpu=3)]
    launcher = {"pods": 1, "cpu": 2}

    assert _judge(nodes, *_job(nodes, workers=2, launcher=launcher, cpu=1)).certain
    three = _judge(nodes, *_job(nodes, workers=3, launcher=launcher, cpu=1))
    assert three.possible
    assert not three.certain


def test_launcher_that_fits_nowhere_makes_the_job_impossible() -> None:
    nodes = [_node("a", gpu=4, cpu=0)]

    assert _judge(nodes, *_job(nodes, workers=1, gpu=1)).most is None
    assert not _judge(nodes, *_job(nodes, workers=1, gpu=1)).possible


def test_roles_whose_pods_are_alike_are_counted_as_one() -> None:
    nodes = [_node("a", gpu=4)]
    names = frozenset({"a"})
    master = Role("master", 1, {"pods": 1, "gpu": 1}, names)
    workers = Role("worker", 3, {"pods": 1, "gpu": 1, "cpu": 0}, names)

    assert _judge(nodes, master, workers) == Judgement(3, sure=3, most=3)
    assert _judge(nodes, Role("master", 5, {"pods": 1, "gpu": 1}, names), workers).most is None


def test_servers_that_may_spread_over_the_workers_nodes_leave_it_open() -> None:
    # If both servers are on one node, the worker fits on the other node. If each node has one server, the worker finds
    # no node.
    nodes = [_node("a", cpu=4), _node("b", cpu=4)]
    names = frozenset({"a", "b"})
    servers = Role("server", 2, {"pods": 1, "cpu": 1}, names)

    assert _judge(nodes, servers, Role("worker", 1, {"pods": 1, "cpu": 3}, names)).certain
    judgement = _judge(nodes, servers, Role("worker", 1, {"pods": 1, "cpu": 4}, names))
    assert judgement.possible
    assert not judgement.certain


def test_role_of_no_pods_needs_no_room() -> None:
    nodes = [_node("a", gpu=1)]
    names = frozenset({"a"})
    worker = Role("worker", 1, {"pods": 1, "gpu": 1}, names)

    assert _judge(nodes, Role("server", 0, {"pods": 1, "cpu": 9}, names), worker).certain


@pytest.mark.parametrize(("workers", "sure"), [(0, 0), (2, 2), (5, 0)])
def test_job_of_no_workers_is_its_other_pods(workers: int, sure: int) -> None:
    nodes = [_node("a", gpu=2, cpu=9), _node("b", gpu=2, cpu=1)]

    judgement = _judge(nodes, *_job(nodes, workers=workers, gpu=1, cpu=1))

    assert (judgement.possible, judgement.sure) == (workers <= 3, sure)


def test_job_of_no_workers_claims_no_room_for_a_worker() -> None:
    nodes = [_node("a", gpu=0, cpu=9)]

    assert _judge(nodes, *_job(nodes, workers=0, gpu=1)) == Judgement(0, sure=0, most=0)


def test_job_that_fits_in_any_order_fits_although_no_placement_was_found() -> None:
    nodes = [Node(f"n{number}", {"pods": 110, "cpu": 8}, {"host": f"n{number}"}) for number in range(40)]
    _, workers = _job(nodes, workers=3, cpu=1)
    apart = replace(workers, anti_affinity=(AntiAffinity("host", frozenset({"worker"})),))

    # A budget of 6 steps is enough to show that 3 pods cannot fill 40 nodes, but not to place the pods.
    assert _judge(nodes, apart, budget=6) == Judgement(3, sure=3, most=3)


SERVERS = [Node(f"n{number}", {"pods": 110, "cpu": 96 - number % 7, "gpu": 8}) for number in range(400)]
ALL = frozenset(node.name for node in SERVERS)


def _large(workers: int, worker_cpu: int = 8) -> list[Role]:
    return [
        Role("scheduler", 1, {"pods": 1, "cpu": 1}, ALL),
        Role("server", 40, {"pods": 1, "cpu": 4}, ALL),
        Role("worker", workers, {"pods": 1, "cpu": worker_cpu, "gpu": 8}, ALL),
    ]


@pytest.mark.parametrize(
    ("workers", "worker_cpu", "judgement"),
    [
        pytest.param(399, 1, Judgement(399, sure=399, most=400), id="room-for-all"),
        # If 21 servers are on a node of 90 CPUs, only 6 CPUs are left there, which is too little for a worker.
        pytest.param(400, 8, Judgement(400, sure=399, most=400), id="servers-may-crowd-on-a-node"),
        pytest.param(401, 8, Judgement(401, sure=0, most=400), id="one-too-many"),
        pytest.param(390, 88, Judgement(390, sure=360, most=400), id="servers-may-spread-over-the-nodes"),
    ],
)
def test_large_jobs_on_large_clusters_are_judged_exactly(workers: int, worker_cpu: int, judgement: Judgement) -> None:
    assert _judge(SERVERS, *_large(workers, worker_cpu)) == judgement


def test_search_that_runs_out_of_steps_claims_nothing() -> None:
    assert _judge(SERVERS, *_large(390, 88), budget=50) == Judgement(390, sure=0, most=400, undecided=True)
    # The solver decides this job by counting alone. So the answer stays the same if a search would run out of steps.
    assert _judge(SERVERS, *_large(401), budget=50) == Judgement(401, sure=0, most=400)


def test_many_unlike_roles_are_judged_within_the_budget() -> None:
    roles = [Role(f"r{number}", 1, {"pods": 1, "cpu": 1 + number}, ALL) for number in range(60)]
    nodes = [Node(f"n{number}", {"pods": 20, "cpu": 60 + number}) for number in range(100)]

    tracemalloc.start()
    judgement = _judge(nodes, *roles, budget=100_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert judgement.certain
    assert peak < 5_000_000


def test_steps_of_a_packing_grow_with_the_numbers_that_it_stores() -> None:
    roles = 40
    none, one = (0,) * roles, (1,) * roles
    meter = Meter()

    # There are two nodes. Each node can run 5 main pods, or one pod of each of the other roles.
    assert most([({none: 5, one: 0}, 2)], one, meter) == 5
    assert meter.steps > 4 * roles / 4
    meter = Meter()
    assert fewest([({none: 5, one: 0}, 2)], one, 9, meter) == 5
    assert meter.steps > 4 * roles / 4


amounts = st.integers(min_value=0, max_value=4)
free = st.fixed_dictionaries({"pods": amounts, "cpu": amounts, "gpu": amounts})
requests = st.fixed_dictionaries({"pods": st.just(1), "cpu": st.integers(0, 3), "gpu": st.integers(0, 2)})


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[Role]]:
    nodes = [Node(f"n{index}", draw(free)) for index in range(draw(st.integers(1, 3)))]
    admitting = st.frozensets(st.sampled_from([node.name for node in nodes]))
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return nodes, [Role(f"r{index}", count, draw(requests), draw(admitting)) for index, count in enumerate(counts)]


@settings(max_examples=600)
@given(clusters(), st.sampled_from([BUDGET, 3, 30]))
def test_judgement_agrees_with_every_order_of_placing_the_pods(
    cluster: tuple[list[Node], list[Role]], budget: int
) -> None:
    nodes, roles = cluster

    ends = _ends(nodes, roles)

    complete = tuple(role.count for role in roles)
    judgement = _judge(nodes, *roles, budget=budget)
    assert judgement.undecided or judgement.possible == (complete in ends)
    assert judgement.undecided or judgement.certain == (ends == {complete})
    # Even if the verdict as a whole is undecided, each statement in it must be true.
    assert not judgement.certain or ends == {complete}
    assert not judgement.possible or complete in ends
    assert budget < BUDGET or not judgement.undecided


@settings(max_examples=200)
@given(clusters())
def test_sure_is_the_largest_size_that_is_certain_and_most_the_largest_possible(
    cluster: tuple[list[Node], list[Role]],
) -> None:
    nodes, (*others, main) = cluster
    judgement = _judge(nodes, *others, main)

    for size in range(1, main.count + 1):
        resized = _judge(nodes, *others, replace(main, count=size))
        assert resized.possible == (judgement.most is not None and size <= judgement.most)
        assert not judgement.possible or resized.certain == (size <= judgement.sure)


# For each role, the number of its pods on each node.
Placed = tuple[tuple[int, ...], ...]


def _ends(nodes: list[Node], roles: list[Role]) -> set[tuple[int, ...]]:
    """Try all orders in which the pods can be placed, and all nodes. Return the final placements.

    A placement is final if all pods are placed, or if a remaining pod finds no node.
    """
    seen: set[Placed] = set()
    ends: set[tuple[int, ...]] = set()
    todo: list[Placed] = [((0,) * len(nodes),) * len(roles)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        steps = _steps(nodes, roles, state)
        if any(not step for step in steps) or not steps:
            ends.add(tuple(map(sum, state)))
        todo += [following for step in steps for following in step]
    return ends


def _steps(nodes: list[Node], roles: list[Role], state: Placed) -> list[list[Placed]]:
    """For each role that still has unplaced pods, return all states to which placing one of these pods can lead."""
    left = [_left(node, roles, [held[n] for held in state]) for n, node in enumerate(nodes)]
    return [
        [_one_more(state, r, n) for n, node in enumerate(left) if copies(node, role)]
        for r, role in enumerate(roles)
        if sum(state[r]) < role.count
    ]


def _one_more(state: Placed, role: int, node: int) -> Placed:
    held = state[role]
    return (*state[:role], (*held[:node], held[node] + 1, *held[node + 1 :]), *state[role + 1 :])


def _left(node: Node, roles: list[Role], held: list[int]) -> Node:
    for role, number in zip(roles, held, strict=True):
        for _ in range(number):
            node = with_pod(node, role)
    return node
