"""Compare what the values of a run need (an operator, a gang scheduler) with the findings about the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from distrain.doctor import operators
from distrain.doctor.findings import ABSENT, MISSING, WARNING, Finding
from distrain.workload.gang_schedulers import BY_VALUE
from distrain.workload.kinds import PLAIN
from distrain.workload.manifest import Job


def findings(values: Mapping[str, Any], job: Job, others: Sequence[Finding]) -> list[Finding]:
    """Return a finding for each part that the values need and the cluster lacks.

    `others` are findings about the cluster.
    """
    missing = {(each.section, each.name): each for each in others if each.state in (ABSENT, MISSING)}
    return [*_of_kind(job, missing), *_of_gang(values, missing)]


def _of_kind(job: Job, missing: Mapping[tuple[str, str], Finding]) -> Iterator[Finding]:
    kind = job.main.owner.kind if job.main.owner else PLAIN.name
    name = kind if ("jobs", kind) in missing else PLAIN.name if kind in ("Job", "StatefulSet") else ""
    if found := missing.get(("jobs", name)):
        words = f"is {name}, which cannot run here: {found.found}"
        yield Finding("values", "job.kind", MISSING, words, found.next, needed=True)


def _of_gang(values: Mapping[str, Any], missing: Mapping[tuple[str, str], Finding]) -> Iterator[Finding]:
    value = str((values.get("gang") or {}).get("scheduler") or "none")
    found = missing.get((operators.SECTION, value))
    if value not in BY_VALUE or found is None:
        return
    name, is_installed = BY_VALUE[value].name, bool(found.details.get("apis"))
    better = f"{found.next}, or set it to none" if is_installed else f"install {name}, or set it to none"
    # Without Kueue, nothing suspends a job that names a queue.
    starts = value == "kueue" and not is_installed
    effect = "the job starts at once and waits in no queue" if starts else "the pods would wait for it for ever"
    words = f"is {value}, and {name} {'does not run' if is_installed else 'is missing'} ({found.found}): {effect}"
    yield Finding("values", "gang.scheduler", WARNING if starts else MISSING, words, better, needed=not starts)
