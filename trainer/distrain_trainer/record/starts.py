"""Infer from a record what happened before a new start: a process was killed, or the number of ranks changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distrain_trainer.record.lines import Line


def between(held: Sequence[Line], start: Line) -> list[tuple[str, dict[str, Any]]]:
    """Return what happened between the last line of a record and a new start, as events with their figures."""
    turns = [line for line in held if line["event"] in ("start", "end")]
    events: list[tuple[str, dict[str, Any]]] = []
    if turns and turns[-1]["event"] == "start":
        events.append(("kill", {**_last_position(held), "seen_unix_seconds": held[-1].get("unix_seconds")}))
    size, before = start.get("world_size"), _last(held, "start").get("world_size")
    if before is not None and before != size:
        position = {"step": start.get("step"), "samples": start.get("samples")}
        events.append(("rescale", {"world_size": size, "world_size_before": before, **position}))
    return events


def _last_position(held: Sequence[Line]) -> dict[str, Any]:
    last = next(line for line in reversed(held) if line["event"] in ("start", "step"))
    return {"step": last.get("step"), "samples": last.get("samples")}


def _last(held: Sequence[Line], event: str) -> Line:
    return next((line for line in reversed(held) if line["event"] == event), {})
