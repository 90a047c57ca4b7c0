"""Choose the provider and the instance type from the flags, the values' nodeSelector, and the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distrain.cloud import labels, prices
from distrain.cloud.groups import GPU, holding
from distrain.cloud.location import Location
from distrain.cloud.needs import Needs
from distrain.cloud.prices import Prices
from distrain.errors import ValuesError
from distrain.instances import table
from distrain.instances.table import ACCELERATOR, EKS, FLAG, GKE, INSTANCE_TYPE, Instance, provider_name, with_gpus

SELECTOR = "workers.nodeSelector"


def selector_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the workers' nodeSelector.

    As in the chart, workers.nodeSelector is merged into the top-level nodeSelector.
    """
    return {**(values.get("nodeSelector") or {}), **((values.get("workers") or {}).get("nodeSelector") or {})}


def provider_of(provider: str | None, instance: str | None, selector: Mapping[str, str]) -> str:
    """Return the provider of --provider, of the instance type, or of a label in the nodeSelector; otherwise EKS."""
    if provider:
        return provider
    if instance:
        return table.find(instance).provider
    if named := selector.get(INSTANCE_TYPE):
        return table.find(named, f"{SELECTOR}.{INSTANCE_TYPE}").provider
    return GKE if ACCELERATOR in selector else EKS


def named_instance(instance: str | None, selector: Mapping[str, str], provider: str) -> Instance | None:
    """Return the instance type of --instance or, without the flag, of the workers' nodeSelector.

    Return None if neither names a type.
    """
    if instance:
        return table.find(instance, FLAG, provider)
    if named := selector.get(INSTANCE_TYPE):
        return table.find(named, f"{SELECTOR}.{INSTANCE_TYPE}", provider)
    return None


def refuse_efa(provider: str, instance: Instance | None) -> None:
    """Raise ValuesError for --efa with another provider than EKS, or with a type without EFA."""
    if provider != EKS:
        raise ValuesError(f"--efa: {provider_name(provider)} has no EFA; leave out --efa, or set --provider {EKS}")
    if instance and not instance.efa:
        others = ", ".join(each.type for each in with_gpus(EKS) if each.efa)
        raise ValuesError(f"--efa: {instance.type} has no EFA interface; name one of {others} with {FLAG}")


def for_total(gpus: int, selector: Mapping[str, str], where: Location, cost: Prices | None, *, efa: bool) -> Instance:
    """Return the best instance type for a total of GPUs that is not split over workers yet.

    The order of preference is the same as in `preferred`.
    """
    given = {
        each: labels.provided(each, GPU, where.zone_label) for each in with_gpus(where.provider) if each.efa or not efa
    }
    fitting = [each for each in given if not labels.lacking(selector, given[each])]
    if not fitting:
        labels.refuse_lacking(SELECTOR, selector, next(iter(given.values())))
    return _best({each: -(-gpus // each.gpus) for each in fitting}, cost)


def preferred(needs: Needs, where: Location, cost: Prices | None, *, efa: bool) -> Instance:
    """Return the type on which the workers cost the least; without prices, the type that leaves the fewest GPUs unused.

    Among types of equal price, the type with the fewest nodes wins, then the first type in the table.
    """
    held = holding(needs, where.provider, where.zone_label, efa=efa)
    return _best({each: -(-needs.workers // number) for each, number in held.items()}, cost)


def _best(nodes: Mapping[Instance, int], cost: Prices | None) -> Instance:
    """Return the best type. For each type, `nodes` has the number of nodes that the run needs."""
    if cost is None:
        return min(nodes, key=lambda each: (nodes[each] * each.gpus, nodes[each]))
    priced = [each for each in nodes if each.type in cost]
    if not priced:
        types = ", ".join(each.type for each in nodes)
        words = f"has no price for any instance type that fits this run; add a line `TYPE: PRICE` for one of {types}"
        unknown = [name for name in cost if not table.is_known(name)]
        misspelt = f", or correct the types that distrain does not know: {', '.join(unknown)}" if unknown else ""
        raise ValuesError(f"{prices.FLAG}: {words}{misspelt}")
    return min(priced, key=lambda each: (nodes[each] * cost[each.type], nodes[each]))
