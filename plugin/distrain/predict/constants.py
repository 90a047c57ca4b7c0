"""Find a run's constants from the user's data: rates measured at some sizes, a network test, or stated numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from distrain.derive.figures import BANDWIDTH
from distrain.errors import ValuesError
from distrain.predict.fit import SPREAD, WITHIN, Measured, computing, fitted
from distrain.predict.gradients import Bucket, late
from distrain.predict.helm_test import Tested
from distrain.predict.network import LATENCY, SERVERS, TREE, Network, Size
from distrain.predict.numbers import short, told
from distrain.predict.step import Constants, step_seconds
from distrain.predict.work import Work

# The share of their network's nominal bandwidth that published runs reached (median): see docs/prediction.md.
REACHED = 0.36
BITS = 8
NO_RATE = "add --rate N, the samples/sec of one GPU, or --record PLACE, the record of a run"
# A measured size is reported if the model's prediction for it is off by more than this share.
MOST_MISSED = 0.1


class Given(Struct, frozen=True):
    """The user's data about a run. Rates are in samples/sec, bandwidths in bits/s, the latency in seconds.

    `rates` maps each number of ranks in a record to the recorded rate; each rank computes `batch` samples per step.
    `is_served` is true if the recorded run used parameter servers. `instance` is the name of the node type, such as
    p4d.24xlarge, and `nominal` is the bandwidth that its provider states. `notes` describe how the recorded run differs
    from the run in the values.
    """

    rate: float | None = None
    rates: Mapping[int, float] = {}
    batch: int | None = None
    is_served: bool = False
    tested: Tested | None = None
    between: float | None = None
    within: float | None = None
    latency: float | None = None
    algorithm: str = ""
    nominal: float | None = None
    instance: str = ""
    notes: tuple[str, ...] = ()


class Found(Struct, frozen=True):
    """The constants, the sources of the compute time and of the network, and notes on what was assumed."""

    constants: Constants
    compute: str
    network: str
    notes: tuple[str, ...] = ()


class _Links(Struct, frozen=True):
    """What is known about the network without the record of a run.

    `is_told` is false if no data of the user give the bandwidth between workers, so that a usual bandwidth is assumed.
    `inside` is the seconds per byte between ranks of the same worker, or None if unknown. `notes` are about the network
    between workers, and `note_inside` is about the network within a worker.
    """

    network: Network
    origin: str
    is_told: bool
    inside: float | None = None
    notes: tuple[str, ...] = ()
    note_inside: tuple[str, ...] = ()


def constants_of(work: Work, given: Given) -> Found:
    """Return the constants of a run. Raises ValuesError if a rank's compute time cannot be found."""
    links = _links(work, given)
    if given.rates:
        return _of_record(work, given, links)
    start = Constants(0.0, links.network, given.algorithm or TREE, SPREAD)
    notes = (*given.notes, *links.notes, *links.note_inside)
    if given.rate:
        compute = work.batch / given.rate
        return Found(replace(start, compute=compute), f"--rate {told(given.rate)}", links.origin, notes)
    if work.p100_rate and work.gpus:
        words = f"compute: no measured rate is given, so the speed of a P100 in fp32 is assumed; {NO_RATE}"
        compute = work.batch / work.p100_rate
        return Found(replace(start, compute=compute), "a P100 in fp32", links.origin, (words, *notes))
    raise ValuesError(f"--rate: is missing, so the compute time of a step is unknown; {NO_RATE}")


def _of_record(work: Work, given: Given, links: _Links) -> Found:
    """Find the constants from the rates in a record.

    If the record has rates of one worker and of several workers, the network is found from the rates, too. Otherwise
    only the compute time is found, from the rate of the smallest size.
    """
    batch = given.batch or work.batch
    measured, left = _measured(work, given, batch)
    if not measured:
        words = f"in that run, the number of ranks was never a multiple of {work.size.slots}, the ranks per worker"
        raise ValuesError(f"--record: {words}; {NO_RATE}")
    buckets = late(work.buckets) if given.is_served else work.buckets
    has_both = measured[0].size.workers == 1 and measured[-1].size.workers > 1
    if has_both and not links.is_told:
        algorithm = SERVERS if given.is_served else given.algorithm
        found = fitted(buckets, measured, algorithm, links.network.latency, links.inside)
        sizes = ", ".join(str(each.size.ranks) for each in measured)
        origin, notes = f"the record, of {sizes} ranks", _of_fit(found)
        compute = origin
    else:
        found, notes = _of_smallest(work, given, links, buckets, measured[0])
        origin, compute = links.origin, f"the record, of {measured[0].size.ranks} ranks"
    _refuse_slow(found, measured[0].seconds, _culprit(given, links, measured[0]))
    notes = (*_unlike(work, given.batch, left), *given.notes, *_missed(found, buckets, measured, batch), *notes)
    algorithm = given.algorithm or TREE if given.is_served else found.algorithm
    return Found(
        replace(found, compute=found.compute * work.batch / batch, algorithm=algorithm), compute, origin, notes
    )


def _of_smallest(
    work: Work, given: Given, links: _Links, buckets: Sequence[Bucket], smallest: Measured
) -> tuple[Constants, tuple[str, ...]]:
    """Find the compute time from one measured size. The network's speed comes from other data than the record."""
    network, notes = links.network, (*links.notes, *links.note_inside)
    if smallest.size.workers == 1 and smallest.size.slots == work.size.slots and links.inside is None:
        # The link within a worker is not known, so the measured compute time includes the exchange within the worker.
        network, notes = replace(network, within=0.0), links.notes
    algorithm = SERVERS if given.is_served else given.algorithm or TREE
    return computing(buckets, smallest, Constants(0.0, network, algorithm, SPREAD)), notes


def _culprit(given: Given, links: _Links, smallest: Measured) -> str:
    """Return the flag for the bandwidth of the link that a run of this size uses, and a description of this link.

    The text begins an error message. The error is raised if exchanging the gradients would take longer than the
    measured step.
    """
    if smallest.size.workers == 1 and not given.is_served:
        return "--within: over the link within a worker"
    return f"--between: over {links.origin}{'' if links.is_told else ', which is assumed,'}"


def _refuse_slow(found: Constants, seconds: float, culprit: str) -> None:
    if found.compute <= 0:
        words = f"the exchange of gradients would take longer than a whole step of the recorded run ({seconds:.3g} s)"
        raise ValuesError(f"{culprit} {words}; give the bandwidth that this run had")


def _of_fit(found: Constants) -> tuple[str, ...]:
    if found.network.between > 0:
        return ()
    return ("network: the record's larger sizes are as efficient as its smallest, so the network costs no time here",)


def _unlike(work: Work, batch: int | None, left: Sequence[int]) -> Iterator[str]:
    """Describe how the steps of the recorded run differ from the steps of the run in the values."""
    for number in left:
        yield f"record: {number} ranks do not fill whole workers of {work.size.slots}, so this size is left out"
    if batch is None:
        yield f"record: it does not have the batch size; the batch size of the values is used, {work.batch}"
    elif batch != work.batch:
        words = "the compute time is scaled in proportion"
        yield f"record: its batch size is {batch}, and that of the values is {work.batch}; {words}"


def _missed(found: Constants, buckets: Sequence[Bucket], measured: Sequence[Measured], batch: int) -> Iterator[str]:
    """Warn of measured sizes at which the run was much faster or slower than the constants predict."""
    for each in measured:
        seconds, ranks = step_seconds(found, buckets, each.size), each.size.ranks
        if abs(each.seconds / seconds - 1) > MOST_MISSED:
            was, would = (f"{short(ranks * batch / time)} samples/s" for time in (each.seconds, seconds))
            yield f"record: {ranks} ranks reached {was}, but the model predicts {would}; do not trust larger sizes"


def _measured(work: Work, given: Given, batch: int) -> tuple[list[Measured], list[int]]:
    """Return the measured sizes of a record, and the numbers of ranks in it that do not fill whole workers."""
    found, left = [], []
    for ranks, rate in sorted(given.rates.items()):
        slots = min(ranks, work.size.slots)
        if ranks % slots:
            left.append(ranks)
        elif rate > 0:
            workers = ranks // slots
            servers = work.size.servers or workers if given.is_served else work.size.servers
            found.append(Measured(Size(workers, slots, servers), ranks * batch / rate))
    return found, left


def _links(work: Work, given: Given) -> _Links:
    """Return the network, the sources of its numbers, and notes on what was assumed. Stated numbers take precedence."""
    tested, inside, notes = given.tested, BITS / given.within if given.within else None, tuple[str, ...]()
    if tested and tested.ranks <= work.size.slots:
        words = "it does not measure the network between workers; run `helm test` with test.workers: 2"
        notes = (f"--test: its {tested.ranks} ranks are assumed to be in one worker, so {words}",)
        inside, tested = tested.link if inside is None else inside, None
    latency = given.latency if given.latency is not None else (tested.latency if tested else LATENCY)
    between, origin, assumed = _between(given, tested)
    within = min(WITHIN, between) if inside is None else inside
    is_assumed = inside is None and work.size.slots > 1
    words = f"network: {short(BITS * 1e-9 / within)} Gbit/s within a worker are assumed; give --within"
    network = Network(within, between, latency)
    return _Links(network, origin, not assumed, inside, (*notes, *assumed), (words,) if is_assumed else ())


def _between(given: Given, tested: Tested | None) -> tuple[float, str, tuple[str, ...]]:
    """Return the seconds per byte between workers, the source of this number, and a note if the number is assumed."""
    if given.between:
        return BITS / given.between, f"--between {told(given.between / 1e9)}", ()
    if tested:
        return tested.link, f"the test over {tested.ranks} ranks", ()
    nominal, name = (given.nominal, given.instance) if given.nominal else (BANDWIDTH, "")
    of = f"of the {short(nominal / 1e9)} Gbit/s of {name}" if name else f"of {short(nominal / 1e9)} Gbit/s"
    words = "published runs reach this share; give --test, --between or --record"
    return BITS / (REACHED * nominal), f"{REACHED:.0%} {of}", (f"network: {REACHED:.0%} {of} is assumed: {words}",)
