"""Measure the solver alone, without reading nodes and pods: `PYTHONPATH=plugin python -m lab.bench.solver`.

The first cluster has 5,000 nodes in three zones and 100 racks. On these nodes, pods of other jobs already use resources
in many different amounts. The first job is a gang of 1,024 workers and a launcher, with the scheduling rules that users
typically set.

Then the bench tries jobs that use up the solver's search budget: all nodes are different, and the job has several rules
or many roles. For these jobs, the bench also prints the memory. A verdict may need two runs of the solver, so the bench
fails if two runs can exceed the limits.
"""

from __future__ import annotations

import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from distrain.solver.budget import BUDGET, Budget
from distrain.solver.capacity import Judgement, judge
from distrain.solver.decide import decide
from distrain.solver.node_classes import compact
from distrain.solver.problem import Affinity, AntiAffinity, Node, Role, TopologySpread
from distrain.solver.reduce import reduced

NODES, WORKERS, GPUS = 5_000, 1_024, 4
ROUNDS = 5
# Limits of one verdict.
SECONDS, MEGABYTES = 15, 300
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"
Job = list[Role]
T = TypeVar("T")


def main() -> int:
    nodes = _nodes(random.Random(0))
    for shape, roles in _shapes(nodes).items():
        _, decided = _timed(_decided, nodes, roles)
        found, judged = _timed(judge, nodes, roles, roles[-1])
        print(
            f"solver, {NODES} nodes, {WORKERS} workers, {shape}: {decided:.0f} ms ({_word(found)}); "
            f"with the largest size that fits {judged:.0f} ms"
        )
    over = [_over_the_limits(name, roles) for name, roles in hard_jobs().items()]
    return int(any(over))


def _over_the_limits(name: str, job: tuple[list[Node], Job]) -> bool:
    """Judge a job in a new process, print the figures, and return whether one of them exceeds its limit."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        seconds, megabytes, word = pool.submit(_measured, *job).result()
    print(f"solver, {name}: {seconds:.1f} s of processor, {megabytes:.0f} MB ({word})")
    return 2 * seconds > SECONDS or megabytes > MEGABYTES


def _measured(nodes: list[Node], roles: Job) -> tuple[float, float, str]:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    found = judge(nodes, roles, roles[-1])
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.process_time() - started, (after - before) / 1000, _word(found)


def _decided(nodes: list[Node], roles: Job) -> object:
    """Decide whether the whole job fits, without trying fewer workers.

    `judge` starts with the same decision, and then tries fewer workers.
    """
    problem = compact(nodes, reduced(nodes, roles, roles[-1]))
    return judge(nodes, roles, roles[-1]) if problem.free_of_rules else decide(problem, Budget(BUDGET))


def _timed(work: Callable[..., T], *arguments: object) -> tuple[T, float]:
    """Return the result of `work`, and its median duration in milliseconds."""
    spent = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        found = work(*arguments)
        spent.append(time.perf_counter() - started)
    return found, 1000 * statistics.median(spent)


def _word(found: Judgement) -> str:
    if found.certain:
        return "fits"
    return "undecided" if found.undecided else "depends" if found.possible else "does not fit"


def _nodes(chance: random.Random) -> list[Node]:
    """Return nodes with 8 GPUs each. Other pods use some of their GPUs, CPU and memory."""
    return [
        Node(
            f"node-{number}",
            {
                "pods": 110 - chance.randrange(40),
                "cpu": 96_000 - 500 * chance.randrange(96),
                "memory": (768 - chance.randrange(300)) * 2**30,
                "nvidia.com/gpu": chance.choice([0, 4, 8, 8]),
            },
            {ZONE: f"zone-{number % 3}", RACK: f"rack-{number % 100}", HOST: f"node-{number}"},
        )
        for number in range(NODES)
    ]


def _shapes(nodes: list[Node]) -> Mapping[str, Job]:
    names = frozenset(node.name for node in nodes)
    workers, both = frozenset({"worker"}), frozenset({"launcher", "worker"})
    launcher = Role("launcher", 1, {"pods": 1, "cpu": 1000, "memory": 2**30}, names)

    def gang(
        affinity: Affinity | None = None,
        anti_affinity: tuple[AntiAffinity, ...] = (),
        spread: tuple[TopologySpread, ...] = (),
    ) -> Role:
        request = {"pods": 1, "cpu": 8000, "memory": 32 * 2**30, "nvidia.com/gpu": GPUS}
        return Role("worker", WORKERS, request, names, affinity, anti_affinity, spread)

    def beside(affinity: Affinity | None = None, anti_affinity: tuple[AntiAffinity, ...] = ()) -> Role:
        return Role(launcher.name, 1, launcher.request, names, affinity, anti_affinity)

    return {
        "no rules": [launcher, gang()],
        "in one zone": [launcher, gang(Affinity((ZONE,), workers))],
        "in one rack": [launcher, gang(Affinity((RACK,), workers))],
        "one per host": [launcher, gang(anti_affinity=(AntiAffinity(HOST, workers),))],
        "spread over zones": [launcher, gang(spread=(TopologySpread(ZONE, 1, workers, names),))],
        "spread over zones with the launcher": [launcher, gang(spread=(TopologySpread(ZONE, 1, both, names),))],
        "spread over racks": [launcher, gang(spread=(TopologySpread(RACK, 1, workers, names),))],
        "spread over hosts": [launcher, gang(spread=(TopologySpread(HOST, 1, workers, names),))],
        "launcher near a worker's zone": [beside(Affinity((ZONE,), workers)), gang()],
        "launcher near a worker's host": [beside(Affinity((HOST,), workers)), gang()],
        "launcher apart from workers": [
            beside(anti_affinity=(AntiAffinity(HOST, workers),)),
            gang(anti_affinity=(AntiAffinity(HOST, both),)),
        ],
        "one per host in one zone": [launcher, gang(Affinity((ZONE,), workers), (AntiAffinity(HOST, workers),))],
    }


def hard_jobs() -> Mapping[str, tuple[list[Node], Job]]:
    """Return jobs for which the solver must try many assignments, because all nodes are different."""
    nodes = _unlike(250, pods=6)
    names, many = frozenset(node.name for node in nodes), _unlike(2_000, pods=100)
    workers, servers = frozenset({"worker"}), frozenset({"ps"})

    def spread(key: str, roles: frozenset[str] = workers, skew: int = 1) -> TopologySpread:
        return TopologySpread(key, skew, roles, names)

    def role(name: str, count: int, cpu: int = 7, **rules: Any) -> Role:
        return Role(name, count, {"pods": 1, "cpu": cpu, "memory": 3}, names, **rules)

    two = (spread(ZONE), spread(RACK))
    apart = AntiAffinity(RACK, servers)
    return {
        "250 unlike nodes, two spread constraints": (nodes, [role("launcher", 1, 1), role("worker", 200, spread=two)]),
        "250 unlike nodes, spread with a skew of 3": (
            nodes,
            [role("worker", 250, spread=(spread(ZONE, skew=3), spread(RACK, skew=3)))],
        ),
        "250 unlike nodes, two roles spread together": (
            nodes,
            [
                role("launcher", 1, 1),
                role("ps", 12, 5, spread=(spread(ZONE, workers | servers),)),
                role("worker", 100, spread=(spread(ZONE, workers | servers), spread(RACK))),
            ],
        ),
        "250 unlike nodes, roles in racks apart": (
            nodes,
            [role("ps", 30, 4), role("worker", 100, anti_affinity=(apart,), spread=(spread(ZONE),))],
        ),
        "2,000 unlike nodes, five unlike roles": (many, _unlike_roles(5, 5_000, many)),
        "2,000 unlike nodes, 60 unlike roles": (many, _unlike_roles(60, 4, many)),
    }


def _unlike(count: int, pods: int) -> list[Node]:
    chance = random.Random(0)
    return [
        Node(
            f"node-{number}",
            {"pods": chance.randint(1, pods), **{each: chance.randint(1, 10 * pods) for each in ("cpu", "memory")}},
            {ZONE: f"zone-{number % 3}", RACK: f"rack-{chance.randrange(10)}"},
        )
        for number in range(count)
    ]


def _unlike_roles(number: int, count: int, nodes: list[Node]) -> Job:
    chance, names = random.Random(1), frozenset(node.name for node in nodes)
    return [
        Role(f"role-{each}", count, {"pods": 1, "cpu": chance.randint(1, 14), "memory": 1 + each}, names)
        for each in range(number)
    ]


if __name__ == "__main__":
    sys.exit(main())
