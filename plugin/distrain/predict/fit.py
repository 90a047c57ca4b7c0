"""Find the constants of a run from sizes at which its steps were measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from distrain.predict.gradients import Bucket
from distrain.predict.network import HIERARCHICAL, LATENCY, RING, TREE, Network, Size
from distrain.predict.step import Constants, step_seconds

# Seconds per byte at 10 GB/s, the speed of PCIe 3.0 with 16 lanes. Used if the link within a worker was not measured.
WITHIN = 1 / 10e9
# The spread of the workers' step times, used if the measurements do not show it: see docs/prediction.md.
SPREAD = 0.01
MOST_SPREAD = 0.08
# Slower than any network on which people train: 1 MB/s, as seconds per byte.
SLOWEST = 1e-6
# Repeated runs differ by about this relative error. So if the default algorithm explains every measured size with at
# most this error, no other algorithm is tried.
CLOSE = 0.02
STEPS_OF_SEARCH = 40
GRID = 16


class Measured(Struct, frozen=True):
    """A size at which a run was measured.

    `seconds` is the time of one step, and `batches` is the number of batches that each rank computes in a step.
    """

    size: Size
    seconds: float
    batches: int = 1


def computing(buckets: Sequence[Bucket], measured: Measured, start: Constants) -> Constants:
    """Return a copy of `start` whose compute time makes the predicted step take as long as the measured step.

    The compute time is 0 if the exchange alone takes longer than the measured step.
    """

    def with_compute(seconds: float) -> Constants:
        return replace(start, compute=seconds)

    longest = measured.seconds / measured.batches
    return with_compute(_root(lambda each: _seconds(with_compute(each), buckets, measured), measured.seconds, longest))


def fitted(
    buckets: Sequence[Bucket],
    measured: Sequence[Measured],
    algorithm: str = "",
    latency: float = LATENCY,
    within: float | None = None,
) -> Constants:
    """Find the constants whose predicted steps take as long as the measured steps.

    The first entry of `measured` is the smallest size, one worker. `within` is the seconds per byte within a worker if
    this is known. `algorithm` names how the gradients are exchanged. If `algorithm` is empty, a tree is assumed. If at
    least two entries of `measured` have more than one worker, and a hierarchical exchange explains their times better
    than a tree, a hierarchical exchange is assumed.
    """
    several = [each for each in measured if each.size.workers > 1]
    if algorithm or len(several) < 2:
        return _fitted(buckets, measured, algorithm or TREE, latency, within)
    tree = _fitted(buckets, measured, TREE, latency, within)
    if all(abs(_seconds(tree, buckets, each) / each.seconds - 1) <= CLOSE for each in several):
        return tree
    other = _fitted(buckets, measured, HIERARCHICAL, latency, within)
    return min(tree, other, key=lambda each: _error(each, buckets, several))


def _fitted(
    buckets: Sequence[Bucket], measured: Sequence[Measured], algorithm: str, latency: float, within: float | None
) -> Constants:
    several, slots = [each for each in measured if each.size.workers > 1], measured[0].size.slots
    alone = _alone(buckets, measured, Constants(0.0, Network(within or 0.0, 0.0, latency), algorithm), within)
    found = _between(alone, buckets, several) if several else alone
    if algorithm not in (RING, TREE):
        return found
    network, is_told = found.network, within is not None or slots > 1 or len(measured) > len(several) + 1
    # The slower of the two links decides the time, so the measurements cannot show how fast the faster link is.
    if is_told:
        return replace(found, network=replace(network, between=max(network.between, network.within)))
    return replace(found, network=replace(network, within=min(WITHIN, network.between)))


def _alone(
    buckets: Sequence[Bucket], measured: Sequence[Measured], start: Constants, within: float | None
) -> Constants:
    """Find the compute time and the seconds per byte within a worker, from the measurements of one worker."""
    first, *more = measured
    if within is not None:
        return computing(buckets, first, start)
    inside = [each for each in more if each.size.workers == 1]
    # If no measurement shows the exchange within a worker separately, it counts as part of the compute time.
    alone = replace(start, compute=first.seconds / first.batches)
    if inside:
        return _within(alone, buckets, inside[-1])
    link = 0.0 if first.size.slots > 1 or start.algorithm in (RING, TREE) else WITHIN
    return replace(alone, network=replace(alone.network, within=link))


def _within(start: Constants, buckets: Sequence[Bucket], inside: Measured) -> Constants:
    def with_link(link: float) -> Constants:
        return replace(start, network=replace(start.network, within=link))

    return with_link(_root(lambda link: _seconds(with_link(link), buckets, inside), inside.seconds))


def _between(start: Constants, buckets: Sequence[Bucket], several: Sequence[Measured]) -> Constants:
    """Find the seconds per byte between workers.

    If several sizes were measured with more than one worker, also find `spread`: how much the workers' step times
    differ.
    """
    if len(several) == 1:
        return _linked(replace(start, spread=SPREAD), buckets, several[0])
    tries = [replace(start, spread=MOST_SPREAD * number / GRID) for number in range(GRID + 1)]
    return min(
        (candidate for each in tries for candidate in _candidates(each, buckets, several)),
        key=lambda each: _error(each, buckets, several),
    )


def _candidates(start: Constants, buckets: Sequence[Bucket], several: Sequence[Measured]) -> list[Constants]:
    """Return copies of `start` to try; they differ in the seconds per byte between workers.

    For each measurement, find the seconds per byte with which the predicted step takes as long as the measured step.
    The tried numbers lie evenly between the smallest and the largest of these results.
    """
    links = sorted(_linked(start, buckets, each).network.between for each in several)
    low, high = links[0], links[-1]
    tries = [low + (high - low) * number / GRID for number in range(GRID + 1)]
    return [replace(start, network=replace(start.network, between=link)) for link in tries]


def _linked(start: Constants, buckets: Sequence[Bucket], several: Measured) -> Constants:
    def with_link(link: float) -> Constants:
        return replace(start, network=replace(start.network, between=link))

    return with_link(_root(lambda link: _seconds(with_link(link), buckets, several), several.seconds))


def _seconds(constants: Constants, buckets: Sequence[Bucket], measured: Measured) -> float:
    return step_seconds(constants, buckets, measured.size, batches=measured.batches)


def _error(constants: Constants, buckets: Sequence[Bucket], measured: Sequence[Measured]) -> float:
    """Return the sum of the squared relative errors of the predicted steps.

    A small penalty is added if the spread differs from the usual one. So of constants with equal errors, those with the
    more usual spread are chosen.
    """
    errors = (math.log(_seconds(constants, buckets, each) / each.seconds) for each in measured)
    return sum(error * error for error in errors) + 0.01 * (constants.spread - SPREAD) ** 2


def _root(seconds: Callable[[float], float], measured: float, most: float = SLOWEST) -> float:
    """Find the number x from 0 to `most` for which seconds(x) equals `measured`; return 0 if seconds(0) is larger."""
    low, high = 0.0, most
    if seconds(low) >= measured:
        return low
    for _ in range(STEPS_OF_SEARCH):
        middle = (low + high) / 2
        low, high = (middle, high) if seconds(middle) < measured else (low, middle)
    return high
