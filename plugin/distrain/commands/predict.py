"""Run the command `predict`: print the time and cost of a run with other numbers of GPUs, without asking a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from distrain import console, files
from distrain.cloud import choice, prices
from distrain.derive.complete import completed_source, is_unspread
from distrain.derive.formulas import BYTES_PER_NUMBER
from distrain.derive.room import nodes_of
from distrain.derive.split import MOST_WORKERS
from distrain.errors import ValuesError, reason
from distrain.helm.render import Template
from distrain.instances.table import INSTANCE_TYPE, Instance
from distrain.predict import helm_test
from distrain.predict.constants import Given, constants_of
from distrain.predict.sizes import Limits, Price, chosen, powers, rows
from distrain.predict.text import answer, text
from distrain.predict.work import Stated, Work, work_of
from distrain.request.request import NAMELESS, Request, refuse_disabled
from distrain.workload.wording import counted

if TYPE_CHECKING:
    from distrain.report.figures import Run
    from distrain.workload.manifest import Job

NAMESPACE = "default"
RECORD = "--record"
# A line shows at most LONGEST characters of a text from a record.
LONGEST = 40
# A lower rate, in samples/sec, must come from a damaged record.
LOWEST = 1e-6


def run(options: argparse.Namespace) -> int:
    cost = prices.read(options.prices) if options.prices else None
    request = Request(options)
    values = request.helm.merged_values(request.source)
    refuse_disabled(values)
    if options.test == "-" and request.source.stdin is not None:
        raise ValuesError(f"{helm_test.FLAG}: --values already reads stdin; name a file with the log")
    instance = _instance(options, values)
    recorded = _recorded(options) if options.record else None
    job = _job(request, instance)
    work = work_of(job, values, str(values["workers"]["gpuResource"]), _stated(options, recorded))
    price = _price(cost, options.prices, instance, work)
    _refuse_small(instance, work, "--instance" if options.instance else choice.SELECTOR)
    if recorded:
        _refuse_other_model(recorded, work)
    notes = _unlike(recorded, values) if recorded else ()
    if recorded and options.rate:
        notes = ("compute: the rates of the record are taken, and not --rate; leave one of them out", *notes)
    given = _given(options, recorded, instance, notes)
    found = constants_of(work, given)
    found = replace(found, notes=(*work.notes, *found.notes))
    limits = Limits(options.max_hours, options.max_cost)
    _refuse_limits(limits, work, price)
    most = options.max_workers or min(MOST_WORKERS, 4 * work.size.workers)
    predicted = rows(work, found.constants, powers(most, work.size.workers), price)
    picked = chosen(predicted, limits)
    if options.output == "text":
        for note in found.notes:
            console.say(note)
        console.answer(text(work, found, predicted, picked, limits))
        return 0
    from distrain.answers.formats import dumped

    console.answer(dumped(answer(work, found, predicted, picked), options.output))
    return 0


def _instance(options: argparse.Namespace, values: Mapping[str, Any]) -> Instance | None:
    selector = choice.selector_of(values)
    wanted = selector.get(INSTANCE_TYPE)
    if options.instance and wanted and wanted != options.instance:
        words = f"is {options.instance}, but {choice.SELECTOR} asks for nodes of type {wanted}"
        raise ValuesError(f"--instance: {words}; give that type, or change {choice.SELECTOR}")
    return choice.named_instance(options.instance, selector, choice.provider_of(None, options.instance, selector))


def _job(request: Request, instance: Instance | None) -> Job:
    """Render the job.

    If the values have only a total of GPUs, divide it among workers that fit on nodes of the instance type.
    """
    source = request.source
    if is_unspread(request.helm.given_values(source)):
        if instance is None:
            raise ValuesError(
                "gpus: the total is not divided among workers yet; run `helm distrain derive`, or add --instance TYPE"
            )
        nodes = instance
        source, _ = completed_source(request.given(source), lambda render, _: nodes_of(nodes, render()))
    template = Template(NAMELESS, NAMESPACE, None, has_valid_values=True, has_test=False)
    return request.helm.render(source, template).job()


def _stated(options: argparse.Namespace, recorded: Run | None) -> Stated:
    start = recorded.last_start if recorded else None
    size = recorded.parameter_bytes if recorded else None
    return Stated(
        options.parameters,
        options.batch,
        options.bucket,
        options.samples,
        size // BYTES_PER_NUMBER if size else None,
        start.epoch_samples if start and (start.epoch_samples or 0) > 0 else None,
    )


def _refuse_small(instance: Instance | None, work: Work, flag: str) -> None:
    if instance and work.gpus > instance.gpus:
        words = f"{instance.type} has {counted(instance.gpus, 'GPU')}, but a worker needs {work.gpus}"
        raise ValuesError(f"{flag}: {words}; name a larger type, or lower workers.gpus")


def _price(cost: prices.Prices | None, file: str, instance: Instance | None, work: Work) -> Price | None:
    """Return the price of a node, and the number of workers that run on one node.

    Raises ValuesError if the price table lacks the instance type.
    """
    if cost is None:
        return None
    if instance is None:
        raise ValuesError(f"{prices.FLAG}: the nodes' instance type is not known; add --instance TYPE")
    if instance.type not in cost:
        words = f"{file} has no price for {instance.type}; add a line `{instance.type}: PRICE`"
        raise ValuesError(f"{prices.FLAG}: {words}")
    return Price(cost[instance.type], instance.gpus // work.gpus if work.gpus else 1)


def _refuse_limits(limits: Limits, work: Work, price: Price | None) -> None:
    if limits.cost is not None and price is None:
        raise ValuesError("--max-cost: needs prices; add --prices FILE and --instance TYPE")
    if (limits.hours or limits.cost) and not work.samples:
        flag = "--max-hours" if limits.hours else "--max-cost"
        step = "add --samples N, the total number of samples in all epochs"
        raise ValuesError(f"{flag}: the length of the run is not known; {step}")


def _given(
    options: argparse.Namespace, recorded: Run | None, instance: Instance | None, notes: tuple[str, ...]
) -> Given:
    if instance and instance.infiniband and not (options.between or options.test or recorded):
        words = "has InfiniBand, whose bandwidth the table of types lacks; give --between, --test or --record"
        notes = (*notes, f"network: {instance.type} {words}")
    known = instance if instance and not instance.infiniband else None
    return Given(
        options.rate,
        {ranks: rate for ranks, rate in recorded.rates().items() if rate >= LOWEST} if recorded else {},
        recorded.batch if recorded else None,
        _is_served(recorded),
        _tested(options.test) if options.test else None,
        _bits(options.between),
        _bits(options.within),
        options.latency,
        options.algorithm or "",
        known.network * 1e9 if known else None,
        known.type if known else "",
        notes,
    )


def _is_served(recorded: Run | None) -> bool:
    from distrain.report.figures import uses_all_reduce

    start = recorded.last_start if recorded else None
    return start is not None and not uses_all_reduce(start)


def _unlike(recorded: Run, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Report each difference in framework, precision or strategy between the record and the values."""
    from distrain.report import texts

    start = recorded.last_start
    told = {**(start.values or {}), "framework": start.framework} if start else {}
    asked = {"framework": values["framework"], "strategy": values["strategy"]}
    asked |= {"precision": (values.get("trainer") or {}).get("precision")} if not values.get("command") else {}
    unlike = [name for name, wanted in asked.items() if told.get(name) and wanted and told[name] != wanted]
    found = {name: texts.of_value(name, told[name], LONGEST) for name in unlike}
    words = "its rates are used unchanged"
    return tuple(
        f"record: its {name} is {own}, and that of the values is {asked[name]}; {words}" for name, own in found.items()
    )


def _bits(gigabits: float | None) -> float | None:
    return None if gigabits is None else gigabits * 1e9


def _tested(path: str) -> helm_test.Tested:
    try:
        content = files.read(path, files.MANIFEST)
    except (OSError, ValueError) as error:
        words = f"{path} cannot be read: {reason(error)}; give a file with the log of the pod of `helm test`"
        raise ValuesError(f"{helm_test.FLAG}: {words}") from error
    return helm_test.read(content.decode(errors="replace"), path)


def _recorded(options: argparse.Namespace) -> Run:
    """Read the record. Raises ValuesError if the record has too few steps to compute a rate."""
    from distrain.record import source
    from distrain.report.figures import like_last, run_of

    record, place = source.from_place(options.record, options.endpoint or "", RECORD)
    run = like_last(run_of(record, "record", place))
    steps = sum(len(start.points) for start in run.starts)
    if steps < 2:
        words = f"{place} has {steps} logged {'step' if steps == 1 else 'steps'}, too few to compute a rate"
        raise ValuesError(f"{RECORD}: {words}; let the run train for longer, or add --rate N")
    if not any(rate >= LOWEST for rate in run.rates().values()):
        words = f"{place} has no samples/sec for any number of ranks"
        raise ValuesError(f"{RECORD}: {words}; name another record, or add --rate N")
    return run


def _refuse_other_model(recorded: Run, work: Work) -> None:
    start = recorded.last_start
    if start and start.model and work.model and start.model != work.model:
        words = f"{recorded.place} is a record of {start.model}, but trainer.model is {work.model}"
        raise ValuesError(f"{RECORD}: {words}; name a record of {work.model}, or set trainer.model={start.model}")
