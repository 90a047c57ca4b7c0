"""Compute the time and cost of a run for each size, and choose the cheapest and the fastest size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from distrain.predict.gradients import Bucket, late
from distrain.predict.network import SERVERS, Size
from distrain.predict.step import Constants, step_seconds
from distrain.predict.work import Work
from distrain.workload.kinds import offers_servers

ALL_REDUCE = "all-reduce"


class Price(Struct, frozen=True):
    """The price of a node per hour, and the number of workers that share the node."""

    hour: Decimal
    workers: int

    def of(self, workers: int, hours: float) -> float:
        return float(self.hour) * -(-workers // self.workers) * hours


class Row(Struct, frozen=True):
    """A size and its predicted figures; `hours` and `cost` of the whole run are None if unknown."""

    size: Size
    exchange: str
    seconds: float
    rate: float
    efficiency: float
    hours: float | None = None
    cost: float | None = None


class Limits(Struct, frozen=True):
    hours: float | None = None
    cost: float | None = None

    def keeps(self, row: Row) -> bool:
        return not _is_above(row.hours, self.hours) and not _is_above(row.cost, self.cost)


def _is_above(found: float | None, limit: float | None) -> bool:
    return found is not None and limit is not None and found > limit


class Choice(Struct, frozen=True):
    """The cheapest and the fastest size within the limits; None if no size is within the limits."""

    cheapest: Row | None
    fastest: Row | None


def powers(most: int, own: int) -> list[int]:
    """Return the numbers of workers to predict for: the powers of two up to `most`, `most`, and `own`.

    `own` is the run's number of workers. It is left out if it is larger than `most`.
    """
    doubled = [2**number for number in range(most.bit_length())]
    return sorted({number for number in (*doubled, most, own) if number <= most})


def rows(work: Work, constants: Constants, workers: Sequence[int], price: Price | None = None) -> list[Row]:
    """Return two rows for each size: one with all-reduce and one with parameter servers.

    A size has only one row if it has a single rank, or if the framework cannot use parameter servers with so many ranks
    per worker.
    """
    return [row for number in workers for row in _rows(work, constants, number, price)]


def _rows(work: Work, constants: Constants, workers: int, price: Price | None) -> Iterator[Row]:
    size = replace(work.size, workers=workers, servers=0)
    yield _row(work, constants, work.buckets, size, price, ALL_REDUCE)
    if size.ranks > 1 and offers_servers(work.framework, size.slots):
        served = replace(size, servers=work.size.servers or workers)
        yield _row(work, replace(constants, algorithm=SERVERS), late(work.buckets), served, price, SERVERS)


def _row(
    work: Work, constants: Constants, buckets: Sequence[Bucket], size: Size, price: Price | None, exchange: str
) -> Row:
    seconds = step_seconds(constants, buckets, size)
    rate = size.ranks * work.batch / seconds
    # With more ranks a step covers more samples. The number of samples of the run is fixed, so the hours follow from
    # the samples and not from the steps.
    hours = work.samples / rate / 3600 if work.samples else None
    cost = None if price is None or hours is None else price.of(size.workers, hours)
    return Row(size, exchange, seconds, rate, constants.compute / seconds, hours, cost)


def chosen(found: Sequence[Row], limits: Limits) -> Choice:
    """Choose among the sizes within the limits.

    Without prices, the cheapest size is the size with the fewest GPU-hours.
    """
    within = [row for row in found if limits.keeps(row)]
    if not within:
        return Choice(None, None)
    return Choice(
        min(within, key=lambda row: (row.cost if row.cost is not None else row.size.ranks / row.rate, row.seconds)),
        min(within, key=lambda row: (row.hours if row.hours is not None else -row.rate, row.size.ranks)),
    )
