"""Define the plan: all facts about a cluster and a run that the printed configuration and commands need."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Struct

from distrain.cloud import prices
from distrain.cloud.groups import Group, Groups
from distrain.cloud.location import Location
from distrain.cloud.needs import Needs
from distrain.cloud.prices import Prices
from distrain.errors import ValuesError


class Plan(Struct, frozen=True):
    """A cluster `name` for a run with the values files `files`; `config` is the path of eksctl's ClusterConfig."""

    name: str
    location: Location
    needs: Needs
    groups: Groups
    files: Sequence[str]
    config: str
    has_placement_group: bool = False
    prices: Prices | None = None
    prices_file: str = ""

    @property
    def gpu(self) -> Group:
        return self.groups.gpu

    @property
    def system(self) -> Group:
        return self.groups.system

    @property
    def placement_group(self) -> str:
        return f"{self.name}-{self.gpu.name}"


def refuse_missing_price(plan: Plan) -> None:
    """Raise ValuesError if the user's table has no price for a type of the cluster."""
    if plan.prices is None:
        return
    for group in (plan.gpu, plan.system):
        if group.instance.type not in plan.prices:
            kind = group.instance.type
            words = f"{plan.prices_file} has no price for {kind}; add a line `{kind}: PRICE`"
            raise ValuesError(f"{prices.FLAG}: {words}")


def hourly(plan: Plan, gpu_nodes: int) -> str:
    """Return a sentence with the cost of an hour with `gpu_nodes` GPU nodes; empty without a table of prices."""
    if plan.prices is None:
        return ""
    parts = [(gpu_nodes, plan.gpu), (plan.system.nodes, plan.system)]
    each = [(number, plan.prices[group.instance.type], group.instance.type) for number, group in parts if number]
    total = sum((number * price for number, price, _ in each), Decimal(0))
    terms = " + ".join(f"{number} x {kind} at {price}" for number, price, kind in each)
    return (
        f"An hour costs {prices.shown(total)} ({terms}), by {plan.prices_file}; disks, control plane and traffic aside."
    )
