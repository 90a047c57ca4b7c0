"""Whole pods against free resources, and the promise that `certain` holds in whatever order pods are placed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distrain.capacity import Node, Role, best_launcher_node, copies, judge, room, shortages

LAUNCHER = {"pods": 1, "cpu": 1}


def _node(name: str, *, pods: int = 110, **free: int) -> Node:
    return Node(name, {"pods": pods, **free})


def _job(nodes: list[Node], *, workers: int, launcher: dict[str, int] = LAUNCHER, **request: int) -> tuple[Role, Role]:
    names = frozenset(node.name for node in nodes)
    return Role("launcher", 1, launcher, names), Role("worker", workers, {"pods": 1, **request}, names)


def test_worker_cannot_be_split_between_nodes() -> None:
    # 7 GPUs are free in all, but no node has 5.
    nodes = [_node("a", gpu=4, cpu=9), _node("b", gpu=3, cpu=9)]
    launcher, workers = _job(nodes, workers=1, gpu=5)

    assert judge(nodes, launcher, workers).most == 0


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

    assert judge(nodes, *_job(nodes, workers=workers, gpu=gpus)).certain


def test_the_scarcest_resource_counts() -> None:
    node = _node("a", gpu=8, cpu=6, memory=100)
    _, workers = _job([node], workers=1, gpu=1, cpu=2, memory=10)

    assert copies(node, workers) == 3


def test_pod_slots_count_even_for_pods_that_ask_for_nothing() -> None:
    node = _node("a", pods=2)
    _, workers = _job([node], workers=5)

    assert copies(node, workers) == 2
    assert shortages(node, workers) == ["Too many pods"]


def test_node_over_committed_on_what_nobody_asks_for_takes_the_pod() -> None:
    node = _node("a", gpu=4, memory=-5)
    _, workers = _job([node], workers=1, gpu=4)

    assert copies(node, workers) == 1


def test_node_over_committed_on_what_is_asked_for_holds_none() -> None:
    node = _node("a", gpu=-2)
    _, workers = _job([node], workers=1, gpu=1)

    assert copies(node, workers) == 0
    assert shortages(node, workers) == ["Insufficient gpu"]


def test_only_what_is_short_for_one_more_is_named() -> None:
    node = _node("a", gpu=3, cpu=4, memory=5)
    _, workers = _job([node], workers=9, gpu=2, cpu=2, memory=3)

    assert shortages(node, workers) == ["Insufficient gpu", "Insufficient memory"]


def test_launcher_is_best_placed_where_it_costs_no_worker() -> None:
    nodes = [_node("a", gpu=2, cpu=2), _node("b", gpu=0, cpu=2), _node("c", gpu=9, cpu=0)]
    launcher, workers = _job(nodes, workers=2, gpu=1, cpu=1)

    assert best_launcher_node(nodes, launcher, workers) == nodes[1]
    assert best_launcher_node(nodes[2:], launcher, workers) is None


def test_node_that_does_not_admit_the_role_holds_none() -> None:
    role = Role("worker", 1, {"pods": 1}, frozenset({"other"}))

    assert room([_node("a")], role) == 0


def test_launcher_that_may_take_a_workers_place_leaves_it_open() -> None:
    # On a the launcher takes the cpu of a worker; on b, where there are no GPUs, it takes nothing.
    nodes = [_node("a", gpu=2, cpu=2), _node("b", gpu=0, cpu=2)]
    judgement = judge(nodes, *_job(nodes, workers=2, gpu=1, cpu=1))

    assert judgement.possible
    assert not judgement.certain
    assert (judgement.sure, judgement.most) == (1, 2)


def test_workers_that_may_shut_the_launcher_out_leave_it_open() -> None:
    # One worker on a and two on b leave no node with 2 cpu for the launcher.
    nodes = [_node("a", cpu=2), _node("b", cpu=3)]
    launcher = {"pods": 1, "cpu": 2}

    assert judge(nodes, *_job(nodes, workers=2, launcher=launcher, cpu=1)).certain
    three = judge(nodes, *_job(nodes, workers=3, launcher=launcher, cpu=1))
    assert three.possible
    assert not three.certain


def test_launcher_that_fits_nowhere_makes_the_job_impossible() -> None:
    nodes = [_node("a", gpu=4, cpu=0)]

    assert judge(nodes, *_job(nodes, workers=1, gpu=1)).most is None
    assert not judge(nodes, *_job(nodes, workers=1, gpu=1)).possible


amounts = st.integers(min_value=0, max_value=4)
free = st.fixed_dictionaries({"pods": amounts, "cpu": amounts, "gpu": amounts})
requests = st.fixed_dictionaries({"pods": st.just(1), "cpu": st.integers(0, 3), "gpu": st.integers(0, 2)})


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], Role, Role]:
    nodes = [Node(f"n{index}", draw(free)) for index in range(draw(st.integers(1, 3)))]
    admitting = st.frozensets(st.sampled_from([node.name for node in nodes]))
    launcher = Role("launcher", 1, draw(requests), draw(admitting))
    return nodes, launcher, Role("worker", draw(st.integers(1, 4)), draw(requests), draw(admitting))


@settings(max_examples=400, deadline=None)
@given(clusters())
def test_judgement_agrees_with_every_order_of_placing_the_pods(cluster: tuple[list[Node], Role, Role]) -> None:
    nodes, launcher, workers = cluster

    ends = _ends(nodes, launcher, workers)

    complete = (1, workers.count)
    assert judge(nodes, launcher, workers).possible == (complete in ends)
    assert judge(nodes, launcher, workers).certain == (ends == {complete})


Placed = tuple[int | None, tuple[int, ...]]


def _ends(nodes: list[Node], launcher: Role, workers: Role) -> set[tuple[int, int]]:
    """Place the pods in every order on every node, and return what is placed wherever that stops.

    A state is the launcher's node, if any, and the workers per node. It stops where all are placed, and where a pod
    that is still to come finds no node.
    """
    seen: set[Placed] = set()
    ends: set[tuple[int, int]] = set()
    todo: list[Placed] = [(None, (0,) * len(nodes))]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        steps = _steps(nodes, launcher, workers, state)
        if any(not step for step in steps) or not steps:
            ends.add((0 if state[0] is None else 1, sum(state[1])))
        todo += [following for step in steps for following in step]
    return ends


def _steps(nodes: list[Node], launcher: Role, workers: Role, state: Placed) -> list[list[Placed]]:
    """Return, for each role with a pod still to come, the states that placing it may lead to."""
    home, held = state
    steps: list[list[Placed]] = []
    free = [_left(node, launcher, workers, int(home == n), held[n]) for n, node in enumerate(nodes)]
    if home is None:
        steps.append([(n, held) for n, node in enumerate(free) if copies(node, launcher)])
    if sum(held) < workers.count:
        hosts = [n for n, node in enumerate(free) if copies(node, workers)]
        steps.append([(home, (*held[:n], held[n] + 1, *held[n + 1 :])) for n in hosts])
    return steps


def _left(node: Node, launcher: Role, workers: Role, launchers: int, held: int) -> Node:
    taken = {name: launchers * launcher.request[name] + held * workers.request[name] for name in node.free}
    return Node(node.name, {name: amount - taken[name] for name, amount in node.free.items()})
