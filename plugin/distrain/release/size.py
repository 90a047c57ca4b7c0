"""Change the number of workers or GPUs in a release's values, and merge values as Helm does. Pure functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any

from distrain.errors import ValuesError

Values = dict[str, Any]


def with_workers(values: Values, full: Values, workers: int) -> Values:
    """Return the values for another number of workers; the size of each worker does not change.

    `values` are the user's values, and `full` are the chart's defaults merged with them.
    """
    changed = copy.deepcopy(values)
    changed["workers"] = {**(changed.get("workers") or {}), "replicas": workers}
    if changed.get("gpus") is not None:
        changed["gpus"] = workers * int(full["workers"]["gpus"])
    return changed


def with_gpus(values: Values, full: Values, total: int, derived: Callable[[], Collection[str]] = tuple) -> Values:
    """Return the values for a total number of GPUs.

    If the total is a multiple of workers.gpus, only the number of workers is changed. Otherwise workers.replicas and
    workers.gpus are removed, so that both are derived again, and so are the other keys of `workers` that `derived`
    returns. Raises ValuesError if workers.gpus is 0.
    """
    each = int(full["workers"]["gpus"])
    if each == 0:
        raise ValuesError(
            "--gpus: the run trains on CPUs, because workers.gpus is 0; give the number of workers with --workers N"
        )
    if total % each == 0:
        return with_workers(values, full, total // each)
    changed = copy.deepcopy(values)
    changed["gpus"] = total
    left_out = {"replicas", "gpus", *derived()}
    workers = {key: value for key, value in (changed.get("workers") or {}).items() if key not in left_out}
    return {**changed, "workers": workers} if workers else {k: v for k, v in changed.items() if k != "workers"}


def differing(values: Values, defaults: Values) -> Values:
    """Return the values that differ from the chart's defaults."""
    found: Values = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict) and isinstance(default, dict):
            if below := differing(value, default):
                found[key] = below
        elif key not in defaults or value != default:
            found[key] = value
    return found


def reused(given: Values, old: Values) -> Values:
    """Merge the given values over the old values, as `helm upgrade --reuse-values` does.

    Here a null removes the old value, so that the chart's default applies again. In a values file, however, a null
    removes the default.
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
