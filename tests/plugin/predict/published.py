"""Compare predictions with published measurements: read published.yaml, fit each series, and score its larger sizes.

The constants of a series are fitted to its smallest sizes, at most three. If at least four numbers of whole machines
were measured, these are the three smallest of them. Otherwise they are one GPU, one machine and two machines, as far as
these were measured. The predictions for all larger sizes are scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from distrain.derive import models
from distrain.predict.fit import Measured, fitted
from distrain.predict.gradients import Bucket, Layer, buckets, even, of_model
from distrain.predict.network import HIERARCHICAL, SERVERS, TREE, Size
from distrain.predict.step import Constants, step_seconds

FILE = Path(__file__).with_name("published.yaml")
# Horovod's default fusion threshold at the time when these throughputs were measured.
BUCKET = 64 * 2**20
MOST_FITTED = 3


class Series(Struct, frozen=True):
    """The measured sizes of one run, the smallest first, with their throughput in samples/sec."""

    table: str
    name: str
    buckets: tuple[Bucket, ...]
    algorithm: str
    slots: int
    measured: tuple[Measured, ...]
    rates: tuple[float, ...]

    @property
    def fitted(self) -> list[int]:
        """Return the indices of the sizes to which the constants are fitted."""
        sizes = [each.size for each in self.measured]
        whole = [index for index, size in enumerate(sizes) if size.slots == self.slots]
        single = [index for index, size in enumerate(sizes) if size.ranks == 1 and self.slots > 1]
        if len(whole) > MOST_FITTED or not single:
            return whole[: min(MOST_FITTED, len(whole) - 1)]
        return [*single, *whole[: 1 if sizes[whole[0]].workers > 1 else 2]]

    @property
    def scored(self) -> list[int]:
        largest = self.measured[self.fitted[-1]].size.ranks
        return [index for index, each in enumerate(self.measured) if each.size.ranks > largest]

    def per_rank(self, index: int) -> float:
        return self.rates[index] / self.measured[index].size.ranks

    def constants(self, algorithm: str = "") -> Constants:
        return fitted(self.buckets, [self.measured[index] for index in self.fitted], algorithm or self.algorithm)


class Score(Struct, frozen=True):
    """A scored size: the relative errors of the model and of a constant efficiency, and the measured efficiency."""

    table: str
    series: str
    ranks: int
    error: float
    constant: float
    efficiency: float


class Table(Struct, frozen=True):
    """A published table. If it is not scored, `left_out` says why."""

    id: str
    title: str
    machines: str
    source: str
    left_out: str
    algorithm: str
    series: tuple[Series, ...]
    scores: tuple[Score, ...]


@cache
def tables() -> tuple[Table, ...]:
    content = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return tuple(_table(each, content["parameters"]) for each in content["tables"])


def scores() -> list[Score]:
    """Return the scored sizes of all tables that are not left out."""
    return [score for table in tables() if not table.left_out for score in table.scores]


def _table(given: dict[str, Any], parameters: dict[str, int]) -> Table:
    series = [_series(given, each, parameters) for each in given["series"]]
    algorithm, counted = given.get("algorithm", ""), series
    if given.get("calibrates"):
        algorithm, counted = _calibrated(series[0]), series[1:]
    return Table(
        given["id"],
        given["title"],
        given["machines"],
        _source(given),
        given.get("left_out", ""),
        algorithm,
        tuple(series),
        tuple(score for each in counted for score in _scores(each, algorithm)),
    )


def _source(given: dict[str, Any]) -> str:
    if "address" in given:
        return str(given["address"])
    return f"{given['repository']} at {given['commit'][:7]}: {given['path']}"


def _series(given: dict[str, Any], series: dict[str, Any], parameters: dict[str, int]) -> Series:
    size_of_a_gradient, batch = series.get("bytes", 4), series.get("batch", 64)
    rows = sorted(_rows(given, series), key=lambda row: row[0].ranks)
    measured = [Measured(size, batch * batches * size.ranks / rate, batches) for size, rate, batches in rows]
    algorithm = given.get("algorithm", "")
    layers = _layers(series["model"], size_of_a_gradient, parameters)
    # Parameter servers send no weights until the last gradient has arrived, so the exchange does not overlap with
    # computation.
    bucketed = buckets(layers, BUCKET, overlaps=algorithm != SERVERS)
    rates = tuple(rate for _, rate, _ in rows)
    return Series(given["id"], series["name"], bucketed, algorithm, given["slots"], tuple(measured), rates)


def _layers(model: str, size: int, parameters: dict[str, int]) -> Sequence[Layer]:
    if model in parameters:
        return even(parameters[model] * size)
    described = models.describe(model)
    return of_model(described.layers, described.parameters["pytorch"] * size)


def _rows(given: dict[str, Any], series: dict[str, Any]) -> Iterator[tuple[Size, float, int]]:
    """Yield each size, its throughput in samples/sec, and the number of batches per step."""
    for workers, slots, *parts in series.get("milliseconds", ()):
        yield Size(workers, slots), workers * slots * series["batch"] / (sum(parts) / 1000), 1
    for row in series.get("sizes", ()):
        workers, slots, rate = row[:3]
        batches, servers = row[3:] + [1, 0][len(row) - 3 :]
        yield Size(workers, slots, servers), rate * given.get("per_unit", 1), batches


def _calibrated(first: Series) -> str:
    """Return the algorithm that predicts the largest size of this series better.

    The series serves only for this choice and is not scored itself.
    """

    def error(algorithm: str) -> float:
        return abs(_predicted(first, first.constants(algorithm), len(first.measured) - 1))

    return min((TREE, HIERARCHICAL), key=error)


def _predicted(series: Series, constants: Constants, index: int) -> float:
    """Return the relative error of the predicted throughput."""
    each = series.measured[index]
    return each.seconds / step_seconds(constants, series.buckets, each.size, batches=each.batches) - 1


def _scores(series: Series, algorithm: str) -> Iterator[Score]:
    constants = series.constants(algorithm)
    for index in series.scored:
        own, ranks = series.per_rank(index), series.measured[index].size.ranks
        constant = series.per_rank(series.fitted[-1]) / own - 1
        efficiency = own / series.per_rank(0)
        yield Score(series.table, series.name, ranks, _predicted(series, constants, index), constant, efficiency)
