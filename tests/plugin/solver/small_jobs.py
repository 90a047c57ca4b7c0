"""Provide zones of nodes, the roles of a small job, and a counter of steps for the tests of the solver."""

from __future__ import annotations

from msgspec.structs import replace

from distrain.solver.budget import Budget
from distrain.solver.problem import Node, Role, TopologySpread

WORKERS = frozenset({"worker"})


class Meter(Budget):
    """A budget that is practically unlimited, and counts the steps taken."""

    def __init__(self) -> None:
        super().__init__(10**9)
        self.steps = 0

    def spend(self, steps: int) -> None:
        self.steps += steps
        super().spend(steps)


def zone(name: str, *free: int, first: int = 0) -> list[Node]:
    """Return a zone's nodes, each with the given free GPUs and CPUs."""
    return [
        Node(f"{name}{n}", {"pods": 110, "gpu": gpus, "cpu": gpus}, {"zone": name, "host": f"{name}{n}"})
        for n, gpus in enumerate(free, first)
    ]


def worker_role(nodes: list[Node], count: int, gpus: int = 1) -> Role:
    return Role("worker", count, {"pods": 1, "gpu": gpus, "cpu": gpus}, frozenset(node.name for node in nodes))


def launcher_role(nodes: list[Node], cpu: int = 1) -> Role:
    return Role("launcher", 1, {"pods": 1, "cpu": cpu}, frozenset(node.name for node in nodes))


def spread_role(
    nodes: list[Node], count: int, roles: frozenset[str] = WORKERS, skew: int = 1, domains: int = 1
) -> Role:
    rule = TopologySpread("zone", skew, roles, frozenset(node.name for node in nodes), {}, domains)
    return replace(worker_role(nodes, count), spread=(rule,))
