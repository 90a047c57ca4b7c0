"""Derive the section `workers` of the values: the number of workers and the resources of a worker.

Only values that the user has not set are derived. No function here reads a file or a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from distrain.derive.room import GIBIBYTE, Room, StatedNodes
from distrain.derive.split import MOST_WORKERS, Limits, Split, first, nearest, splits, whole_nodes
from distrain.errors import ValuesError
from distrain.kube.quantities import text, units
from distrain.workload.wording import counted

MARK = "derived: "

Path = tuple[str, str]
REPLICAS, GPUS, CPU, MEMORY, SHM = (("workers", key) for key in ("replicas", "gpus", "cpu", "memory", "shm"))


class Line(Struct, frozen=True):
    """A derived value, and the reason that is written in the comment of its line."""

    value: int | str
    source: str

    @property
    def remark(self) -> str:
        return MARK + self.source


Lines = dict[Path, Line]


class Work(Struct):
    """Values while they are being completed: `own` holds what the user set, `full` the chart's defaults merged with it.

    `before` holds the values that an earlier run derived, and `notes` holds messages for the user.
    """

    own: dict[str, Any]
    full: Mapping[str, Any]
    defaults: Mapping[str, Any]
    before: Lines = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def total(self) -> int | None:
        return None if self.own.get("gpus") is None else int(self.own["gpus"])

    @property
    def gpu_resource(self) -> str:
        return str(self.full["workers"]["gpuResource"])

    def has(self, path: Path) -> bool:
        return path[1] in (self.own.get(path[0]) or {})

    def is_in_resources(self, path: Path) -> bool:
        """Tell whether `resources` in the values has a request or limit for the CPU or memory at `path`.

        If so, workers.cpu or workers.memory must not be derived, because the derived value would contradict
        `resources`.
        """
        return any(each.get(path[1]) is not None for key in ("requests", "limits") for each in self._amounts(key))

    def _amounts(self, key: str) -> Iterator[Mapping[str, Any]]:
        """Yield the requests of workers.resources, then the requests of the top-level `resources`.

        If `key` is `limits`, yield the limits instead.
        """
        for given in (self.full["workers"].get("resources"), self.full.get("resources")):
            yield (given or {}).get(key) or {}

    def limit_in_resources(self, path: Path) -> Any:
        """Return the limit for the workers' CPU or memory in `resources`, or None."""
        return next((each[path[1]] for each in self._amounts("limits") if each.get(path[1]) is not None), None)

    def value(self, path: Path, lines: Lines) -> Any:
        if path in lines:
            return lines[path].value
        holder = self.full if self.has(path) else self.defaults
        return holder[path[0]].get(path[1])


def lines_of(work: Work, room: Room | None) -> Lines:
    """Derive every value of `workers` that the user has not set.

    `room` must not be None if `needs_nodes` returns True. Raises ValuesError if the GPUs cannot be split.
    """
    lines = _spread(work, room)
    split = Split(int(work.value(REPLICAS, lines)), int(work.value(GPUS, lines)))
    if split.gpus and room and work.has(GPUS) and not room.may_fit(split):
        words = f"workers.gpus: {split.gpus} is set and kept, but the nodes hold no {split}"
        work.notes.append(f"{words}; `helm distrain check` says why")
    if split.gpus:
        lines |= _amounts(work, room, split)
    shm = _shm(split.gpus, work.value(MEMORY, lines), work.limit_in_resources(MEMORY))
    _report_kept(work, SHM, shm, is_too_much=False)
    if not work.has(SHM) and shm:
        lines[SHM] = shm
    return lines


def needs_nodes(work: Work) -> bool:
    """Tell whether the split depends on the nodes and was not derived by an earlier run."""
    total = work.total
    if not total or work.has(GPUS):
        return False
    gpus, replicas = (work.value(path, work.before) for path in (GPUS, REPLICAS))
    is_settled = GPUS in work.before and (work.has(REPLICAS) or REPLICAS in work.before)
    return not (is_settled and gpus * replicas == total)


def _spread(work: Work, room: Room | None) -> Lines:
    total = work.total
    before = {path: work.before[path] for path in (REPLICAS, GPUS) if path in work.before}
    if total is None:
        return _given_up(work, before)
    if work.has(REPLICAS) and work.has(GPUS):
        return {}
    if total == 0:
        return {} if work.has(GPUS) else {GPUS: Line(0, "gpus 0, for training on the CPU")}
    if work.has(GPUS):
        each = int(work.own["workers"]["gpus"])
        split = _chosen(work, total, _limits(work, max(each, 1)), StatedNodes(each))
        return {REPLICAS: Line(split.replicas, f"gpus / workers.gpus = {total} / {each}")}
    if room is None:
        return before
    limits = _limits(work, room.largest)
    split = _chosen(work, total, limits, room)
    if work.has(REPLICAS):
        return {GPUS: Line(split.gpus, f"gpus / workers.replicas = {total} / {split.replicas}")}
    source = f"gpus / workers.gpus = {total} / {split.gpus}"
    return {REPLICAS: Line(split.replicas, source), GPUS: Line(split.gpus, _why(work, split, limits, room.largest))}


def _given_up(work: Work, before: Lines) -> Lines:
    """Treat the values that were derived from the total `gpus` as the user's own: the user has removed this total."""
    for path, line in before.items():
        work.own.setdefault("workers", {})[path[1]] = line.value
        work.notes.append(f"{'.'.join(path)}: {line.value} was derived from gpus, which is gone; it is yours now")
    return {}


def _chosen(work: Work, total: int, limits: Limits, room: Room) -> Split:
    """Return the first split that fits on the nodes now.

    If no split fits now, return the first split that fits after other pods end.
    """
    if split := first(total, limits, room.fits):
        return split
    if split := first(total, limits, room.may_fit):
        gpus, fit = "GPU" if split.gpus == 1 else "GPUs", "fits" if split.replicas == 1 else "fit"
        words = f"gpus: {split} {gpus} {fit} only once other pods end or nodes come back"
        words = f"{words}; `helm distrain check` says why"
        work.notes.append(words)
        return split
    raise ValuesError(_no_split(total, limits, room))


def _limits(work: Work, largest: int) -> Limits:
    workers = work.full["workers"]
    replicas, gpus = (work.own["workers"][path[1]] if work.has(path) else None for path in (REPLICAS, GPUS))
    fewest, most = workers.get("minReplicas") or 1, workers.get("maxReplicas") or MOST_WORKERS
    # With a parameter server, the trainer's TensorFlow worker uses only one GPU.
    is_single = (work.full["framework"], work.full["strategy"]) == ("tensorflow", "parameter-server")
    return Limits(1 if is_single and not work.full.get("command") else largest, fewest, most, replicas, gpus)


def _why(work: Work, split: Split, limits: Limits, node: int) -> str:
    """Return the reason for the number of GPUs per worker. Add a note if a worker has less than a whole node."""
    total = split.total
    if split.gpus == node:
        return f"gpus {total} on whole nodes of {node}"
    if limits.largest < node:
        return f"gpus {total}, {limits.largest} for each process of the trainer"
    if split.replicas == 1:
        return f"gpus {total} on one node of {node}"
    if whole := " or ".join(map(str, whole_nodes(total, node))):
        words = f"gpus: {total} fill no whole nodes of {counted(node, 'GPU')}, so there are {split} each; {whole} would"
    else:
        words = f"gpus: {total} on whole nodes of {counted(node, 'GPU')} do not fit, so there are {split} each"
    work.notes.append(words)
    return f"gpus {total} on nodes of {node}, in the fewest equal workers"


def _no_split(total: int, limits: Limits, room: Room) -> str:
    found = " or ".join(f"{split.total} ({split})" for split in nearest(total, limits, room.may_fit))
    if any(splits(total, limits)):
        most = counted(room.largest, "GPU")
        # These words are also right for a cluster with a single node.
        head = f"gpus: workers with {counted(total, 'GPU')} in total do not fit: no node has more than {most}"
        return f"{head}; set gpus to {found}" if found else f"{head}; lower workers.cpu or workers.memory, or add nodes"
    odd = f"gpus: {total} cannot be divided evenly {_among(limits)}"
    if not found:
        return f"{odd}, and no other number fits the limits; change the limits on workers or on GPUs per worker"
    return f"{odd}; set gpus to {found}{_without_own(total, limits)}"


def _among(limits: Limits) -> str:
    """Return a phrase for a message about the division of the GPUs, such as "among 4 workers (workers.replicas)"."""
    if limits.gpus:
        return f"into workers of {counted(limits.gpus, 'GPU')} (workers.gpus)"
    if limits.replicas:
        return f"among {counted(limits.replicas, 'worker')} (workers.replicas)"
    most = f"at most {limits.most} " if limits.most < MOST_WORKERS else ""
    return f"among {most}workers with at most {counted(limits.largest, 'GPU')} each"


def _without_own(total: int, limits: Limits) -> str:
    """Return the advice to remove the user's workers.gpus or workers.replicas, if the total can be split without it."""
    own = "workers.gpus" if limits.gpus else "workers.replicas" if limits.replicas else ""
    relaxed = Limits(limits.largest, limits.fewest, limits.most)
    return f", or leave {own} out" if own and any(splits(total, relaxed)) else ""


def _amounts(work: Work, room: Room | None, split: Split) -> Lines:
    """Derive a worker's CPU and memory from known nodes.

    If the nodes are not known, keep the values that an earlier run derived for the same number of GPUs.
    """
    source = f"a node's share for {counted(split.gpus, 'GPU')}"
    share = room.share(split) if room else {}
    lines = {}
    for path in (CPU, MEMORY):
        before = work.before.get(path)
        line = Line(_number(share[path[1]]), source) if path[1] in share else before
        if line is None:
            continue
        _report_kept(work, path, line, is_too_much=True)
        if work.has(path) or work.is_in_resources(path):
            continue
        if line.source == source:
            lines[path] = line
        else:
            words = f"{'.'.join(path)}: {line.value} was {line.source}, and is left out for workers of {split.gpus}"
            work.notes.append(f"{words}; derive with --snapshot or a cluster to have it")
    return lines


def _shm(gpus: int, memory: str | None, limit: str | None) -> Line | None:
    """Return the size of /dev/shm, or None if the chart's default for one rank is enough.

    The worker's memory limit is `memory` or, if that is None, `limit` from `resources`.
    """
    size = gpus * GIBIBYTE
    source = f"1Gi for each of {gpus} ranks"
    most = memory or limit
    if most and size > units("memory", most) // 2:
        size = math.floor(units("memory", most) / 2 / GIBIBYTE) * GIBIBYTE
        source = "half of workers.memory" if memory else "half of the workers' memory limit"
    return Line(text("memory", size), source) if size > GIBIBYTE else None


def _report_kept(work: Work, path: Path, line: Line | None, *, is_too_much: bool) -> None:
    """Add a note if the user's value is too large or too small, compared to the derived value."""
    value = work.own.get("workers", {}).get(path[1]) if work.has(path) else None
    if value is None or line is None:
        return
    own, ours = (units(path[1], amount) for amount in (value, line.value))
    if own > ours if is_too_much else own < ours:
        comparison = "more" if is_too_much else "less"
        where = ".".join(path)
        work.notes.append(f"{where}: {value} is set and kept; it is {comparison} than {line.value}, {line.source}")


def _number(amount: str) -> int | str:
    return int(amount) if amount.isdigit() else amount
