"""Run the command `cluster`: print how to create a cluster for a run, without asking a cloud."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from distrain import console
from distrain.answers.output_file import refuse_existing, replacing
from distrain.cloud import aks, choice, eks, gke, prices, steps
from distrain.cloud.groups import NAMESPACE, gpu_group, sized
from distrain.cloud.location import Location, location
from distrain.cloud.needs import Needs, needs_of, refuse_without_gpus
from distrain.cloud.plan import Plan, refuse_missing_price
from distrain.cloud.prices import Prices
from distrain.derive.complete import completed_source, is_unspread
from distrain.derive.room import nodes_of
from distrain.errors import ValuesError
from distrain.helm.render import Template
from distrain.instances.table import AKS, EKS, GKE, Instance
from distrain.request.request import NAMELESS, Request, refuse_disabled

NAME = re.compile(r"[a-z]([-a-z0-9]{0,37}[a-z0-9])?")
CONFIG = "cluster.yaml"
TEXTS = {EKS: eks.text, GKE: gke.text, AKS: aks.text}


class Wanted(Struct):
    """What the arguments and the values ask for.

    `named` is the instance type that the arguments or the values name, or None if they name none.

    `notes` say what the plugin has chosen for the user.
    """

    request: Request
    values: Mapping[str, Any]
    where: Location
    named: Instance | None
    cost: Prices | None
    notes: list[str] = field(default_factory=list)


def run(options: argparse.Namespace) -> int:
    target = Path(options.output) if options.output else None
    if target:
        refuse_existing(target, force=options.force)
    if not NAME.fullmatch(options.cluster_name):
        words = "is not a cluster name that all three clouds accept: use a-z, 0-9 and -, 39 characters at most"
        raise ValuesError(f"--name: {options.cluster_name} {words}")
    wanted = _wanted(options)
    plan = _plan(wanted)
    refuse_missing_price(plan)
    for note in wanted.notes:
        console.say(note)
    made = TEXTS[plan.location.provider](plan)
    if not target:
        console.answer(made.rstrip("\n"))
        return 0
    with replacing(target) as file:
        file.write(made.encode())
    if plan.location.provider == EKS:
        console.answer(steps.text(eks.commands(plan)))
    console.say(f"wrote {target}")
    return 0


def _wanted(options: argparse.Namespace) -> Wanted:
    cost = prices.read(options.prices) if options.prices else None
    request = Request(options)
    values = request.helm.merged_values(request.source)
    refuse_disabled(values)
    refuse_without_gpus(values)
    selector = choice.selector_of(values)
    provider = choice.provider_of(options.provider, options.instance, selector)
    where = location(provider, options.region, options.zone)
    named = choice.named_instance(options.instance, selector, provider)
    if options.efa:
        choice.refuse_efa(provider, named)
    return Wanted(request, values, where, named, cost)


def _plan(wanted: Wanted) -> Plan:
    options, zone = wanted.request.options, wanted.where.zone_label
    needs, instance = _needs(wanted)
    efa = bool(options.efa or needs.asks_for_efa)
    instance = instance or choice.preferred(needs, wanted.where, wanted.cost, efa=efa)
    if instance is not wanted.named:
        wanted.notes.append(_chosen(instance, wanted.cost))
    return Plan(
        options.cluster_name,
        wanted.where,
        needs,
        sized(needs, gpu_group(needs, instance, zone, efa=efa), zone),
        files=[file if file != "-" else "values.yaml" for file in wanted.request.source.files],
        config=options.output or CONFIG,
        has_placement_group=options.placement_group,
        prices=wanted.cost,
        prices_file=options.prices or "",
    )


def _needs(wanted: Wanted) -> tuple[Needs, Instance | None]:
    """Return the run's needs and an instance type.

    If the values have only a total of GPUs, this total is divided among workers that fit on nodes of one instance type,
    and this type is returned. Otherwise the type that the user named is returned, or None.
    """
    request, values, where, instance = wanted.request, wanted.values, wanted.where, wanted.named
    source = request.source
    if is_unspread(request.helm.given_values(source)):
        selector, efa = choice.selector_of(values), request.options.efa
        chosen = instance or choice.for_total(values["gpus"], selector, where, wanted.cost, efa=efa)
        source, notes = completed_source(request.given(source), lambda render, _: nodes_of(chosen, render()))
        wanted.notes.extend(notes)
        instance = chosen
    template = Template(NAMELESS, NAMESPACE, None, has_valid_values=True, has_test=False)
    return needs_of(request.helm.render(source, template).job(), values, where.provider), instance


def _chosen(instance: Instance, cost: Prices | None) -> str:
    why = "the cheapest that holds a worker" if cost is not None else "which leaves the fewest GPUs unused"
    return f"chosen: {instance.type}, {why}; --instance names another type"
