"""Measure how long the solver takes after nodes and pods are read: `PYTHONPATH=plugin python -m lab.bench.solver`.

5,000 nodes in three zones and 100 racks hold other pods of many sizes. The job is a gang of 1,024 workers and a
launcher, with the scheduling rules that users set.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from distrain.solver.capacity import BUDGET, Judgement, judge
from distrain.solver.decide import decide
from distrain.solver.node_classes import compact
from distrain.solver.problem import Affinity, AntiAffinity, Node, Role, TopologySpread
from distrain.solver.reduce import reduced

NODES, WORKERS, GPUS = 5_000, 1_024, 4
ROUNDS = 5
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"
Job = list[Role]
T = TypeVar("T")


def main() -> None:
    nodes = _nodes(random.Random(0))
    for shape, roles in _shapes(nodes).items():
        _, decided = _timed(_decided, nodes, roles)
        found, judged = _timed(judge, nodes, roles, roles[-1])
        print(
            f"solver, {NODES} nodes, {WORKERS} workers, {shape}: {decided:.0f} ms ({_word(found)}); "
            f"with the largest size that fits {judged:.0f} ms"
        )


def _decided(nodes: list[Node], roles: Job) -> object:
    """Decide for the job at its full size, as `judge` does before it tries smaller sizes."""
    problem = compact(nodes, reduced(nodes, roles, roles[-1]))
    return judge(nodes, roles, roles[-1]) if problem.free_of_rules else decide(problem, BUDGET)


def _timed(work: Callable[..., T], *arguments: object) -> tuple[T, float]:
    """Return the result of `work`, and its median time in milliseconds."""
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
    """Return nodes of 8 GPUs on which other pods use some GPUs, CPU and memory."""
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


if __name__ == "__main__":
    main()
