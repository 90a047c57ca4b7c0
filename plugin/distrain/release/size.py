"""The values of a release at another size, and values that are reused as Helm reuses them. Pure functions."""

from __future__ import annotations

import copy
from typing import Any

from distrain.errors import ValuesError

Values = dict[str, Any]


def with_workers(values: Values, full: Values, workers: int) -> Values:
    """Return the values for so many workers of the size that they have; `full` are those with the chart's defaults."""
    changed = copy.deepcopy(values)
    changed["workers"] = {**(changed.get("workers") or {}), "replicas": workers}
    if changed.get("gpus") is not None:
        changed["gpus"] = workers * int(full["workers"]["gpus"])
    return changed


def with_gpus(values: Values, full: Values, total: int) -> Values:
    """Return the values for a total of GPUs: more or fewer of the same workers, else the split is left to derive."""
    each = int(full["workers"]["gpus"])
    if each == 0:
        raise ValuesError("--gpus: the run trains on the CPU, as workers.gpus is 0; say --workers N")
    if total % each == 0:
        return with_workers(values, full, total // each)
    changed = copy.deepcopy(values)
    changed["gpus"] = total
    workers = {key: value for key, value in (changed.get("workers") or {}).items() if key not in ("replicas", "gpus")}
    return {**changed, "workers": workers} if workers else {k: v for k, v in changed.items() if k != "workers"}


def reused(given: Values, old: Values) -> Values:
    """Return the given values over the old ones, as `helm upgrade --reuse-values` merges them.

    A null takes an old value away; unlike in a values file, the chart's default is then back.
    """
    merged = dict(given)
    for key, value in old.items():
        if key not in given:
            merged[key] = value
        elif given[key] is None:
            del merged[key]
        elif isinstance(value, dict) and isinstance(given[key], dict):
            merged[key] = reused(given[key], value)
    return merged
