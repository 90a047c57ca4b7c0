"""Recognize derived values in a release, which keeps the values but not the comments that mark derived ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distrain.derive.complete import Given, Measure, room_of
from distrain.derive.workers import CPU, GPUS, MEMORY, REPLICAS, SHM, Lines, Path, Work, lines_of
from distrain.helm.render import Values
from distrain.kube.quantities import units


def derived_keys(given: Given, ask: Measure) -> set[str]:
    """Return which of workers.cpu, memory and shm have the value that `derive` writes for the present size.

    If the nodes have changed since the values were derived, a derived value may be missing from the result. The user
    may have set a value in the result, if it is the same as the derived one.
    """
    values = given.helm.values(given.source)
    work = _work(values, CPU, MEMORY, SHM)
    share = lines_of(work, room_of(given, work, ask))
    # The derived size of /dev/shm depends on the release's memory, whether or not this was derived.
    shm = lines_of(_work(values, SHM), None)
    found = {path: lines for path, lines in ((CPU, share), (MEMORY, share), (SHM, shm)) if path in lines}
    return {path[1] for path, lines in found.items() if _is_same(values.given, path, lines)}


def _work(values: Values, *left_out: Path) -> Work:
    """Return the release's values with the number and size of its workers, but without the keys left out."""
    size = {key: values.merged["workers"][key] for _, key in (REPLICAS, GPUS)}
    workers = {**(values.given.get("workers") or {}), **size}
    kept = {key: value for key, value in workers.items() if ("workers", key) not in left_out}
    return Work({**values.given, "workers": kept}, values.merged, values.defaults)


def _is_same(own: Mapping[str, Any], path: Path, lines: Lines) -> bool:
    found = (own.get(path[0]) or {}).get(path[1])
    return found is not None and units(path[1], found) == units(path[1], lines[path].value)
