"""Write a prediction as text for people, and as JSON values for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from distrain.predict.constants import Found
from distrain.predict.network import Network
from distrain.predict.numbers import short
from distrain.predict.sizes import Choice, Limits, Row
from distrain.predict.work import Work
from distrain.workload.wording import counted

HEAD = ("workers", "ranks", "servers", "exchange", "step", "samples/s", "efficiency", "hours", "cost")


def text(work: Work, found: Found, rows: Sequence[Row], choice: Choice, limits: Limits) -> str:
    """Return the constants, a table of the sizes, and the two chosen sizes."""
    return "\n".join([*_constants(work, found), "", *_table(rows), "", *_chosen(choice, limits)])


def _constants(work: Work, found: Found) -> Iterator[str]:
    model = " ".join(filter(None, (work.model or "your program", f"with {work.framework}")))
    yield f"run       {model}, batch {work.batch} per rank, {counted(work.size.slots, 'rank')} per worker"
    buckets = (
        f"{counted(len(work.buckets), 'bucket')}, each of {short(work.bucket / 2**20)} MiB at most or of one layer"
    )
    yield f"gradients {short(work.gradients / 1e6)} MB in {buckets}"
    yield f"compute   {_time(found.constants.compute)} a step, from {found.compute}"
    yield f"network   {_network(found, work.size.slots)}, from {found.network}"
    if work.samples:
        steps = f", those of {work.steps:,} steps of {counted(work.size.ranks, 'rank')}" if work.steps else ""
        yield f"length    {work.samples:,} samples{steps}"


def _network(found: Found, slots: int) -> str:
    network = found.constants.network
    links = f"{_gbits(network.between)} between workers{_inside(network, slots)}"
    return f"{links}, {short(network.latency * 1e6)} us a hop, by {found.constants.algorithm}"


def _inside(network: Network, slots: int) -> str:
    """Return the bandwidth within a worker as text, or an empty text if a worker has only one rank."""
    if slots == 1:
        return ""
    return f", {_gbits(network.within)} within one" if network.within > 0 else ", that within one in the compute time"


def _gbits(seconds_per_byte: float) -> str:
    return f"{short(8e-9 / seconds_per_byte)} Gbit/s" if seconds_per_byte > 0 else "no cost"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    known = [True] * 7 + [any(row.hours is not None for row in rows), any(row.cost is not None for row in rows)]
    lines = [HEAD, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    for line in lines:
        cells = [_aligned(cell, column, widths[column]) for column, cell in enumerate(line) if known[column]]
        yield "  ".join(cells).rstrip()


def _aligned(cell: str, column: int, width: int) -> str:
    return cell.ljust(width) if HEAD[column] == "exchange" else cell.rjust(width)


def _cells(row: Row) -> tuple[str, ...]:
    size = row.size
    servers = str(size.servers) if size.servers else "-"
    return (
        *(str(size.workers), str(size.ranks), servers, row.exchange, _time(row.seconds), short(row.rate)),
        *(f"{row.efficiency:.0%}", _hours(row.hours), "" if row.cost is None else _money(row.cost)),
    )


def _hours(hours: float | None) -> str:
    return "" if hours is None else short(hours)


def _money(cost: float) -> str:
    return short(cost) if 0 < cost < 0.01 else f"{cost:,.2f}"


def _time(seconds: float) -> str:
    return f"{short(seconds)} s" if seconds >= 1 else f"{short(seconds * 1e3)} ms"


def _chosen(choice: Choice, limits: Limits) -> Iterator[str]:
    limit = _limit(limits)
    if choice.cheapest is None or choice.fastest is None:
        yield f"No size ends{limit}; raise the limit, or --max-workers."
        return
    yield f"cheapest{limit}: {_words(choice.cheapest)}"
    yield f"fastest{limit}: {_words(choice.fastest)}"


def _limit(limits: Limits) -> str:
    given = [f"{short(limits.hours)} hours"] if limits.hours is not None else []
    given += [f"a cost of {_money(limits.cost)}"] if limits.cost is not None else []
    return f" within {' and '.join(given)}" if given else ""


def _words(row: Row) -> str:
    hours = _hours(row.hours)
    takes = [f"{hours} {'hour' if hours == '1' else 'hours'}"] if hours else []
    takes += [f"a cost of {_money(row.cost)}"] if row.cost is not None else []
    takes += [f"{short(row.rate)} samples/s at {row.efficiency:.0%}"]
    return f"{counted(row.size.workers, 'worker')} by {row.exchange}: {', '.join(takes)}"


def answer(work: Work, found: Found, rows: Sequence[Row], choice: Choice) -> dict[str, Any]:
    """Return the prediction for programs: seconds, bytes and bits/s."""
    network = found.constants.network
    return {
        "model": work.model or None,
        "batch": work.batch,
        "gradientBytes": work.gradients,
        "bucketBytes": work.bucket,
        "steps": work.steps,
        "samples": work.samples,
        "computeSeconds": found.constants.compute,
        "computeFrom": found.compute,
        "network": {
            "betweenBitsPerSecond": _bits(network.between),
            "withinBitsPerSecond": _bits(network.within),
            "latencySeconds": network.latency,
            "algorithm": found.constants.algorithm,
            "from": found.network,
        },
        "sizes": [_of_row(row) for row in rows],
        "cheapest": choice.cheapest and _of_row(choice.cheapest),
        "fastest": choice.fastest and _of_row(choice.fastest),
        "assumed": list(found.notes),
    }


def _bits(seconds_per_byte: float) -> float | None:
    return 8 / seconds_per_byte if seconds_per_byte > 0 else None


def _of_row(row: Row) -> dict[str, Any]:
    return {
        "workers": row.size.workers,
        "ranks": row.size.ranks,
        "servers": row.size.servers,
        "exchange": row.exchange,
        "stepSeconds": row.seconds,
        "samplesPerSecond": row.rate,
        "efficiency": row.efficiency,
        "hours": row.hours,
        "cost": row.cost,
    }
