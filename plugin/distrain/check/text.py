"""Format a report as text: the verdict, the nodes grouped by reason, and the next step."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from distrain.check.report import Report, readable
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import listed

WIDTH = 100
# A command in backticks. A command is never wrapped, so that users can copy it.
COMMAND = re.compile("`[^`]*`")
SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")


def summary(report: Report, job: Job, *, answer_last: bool = False) -> list[str]:
    """Return the report's lines. The verdict comes first, or last if `answer_last` is set.

    `answer_last` is for logs that keep only their last lines.
    """
    found, *step = found_and_step(report, job)
    lines = [*_table(report), *(f"next: {words}" for words in step)]
    lines += [f"warning: {warning}" for warning in report.warnings]
    lines += [f"not judged: {words}" for words in report.unseen]
    lines += [f"assumed: {words}" for words in report.assumed]
    if answer_last:
        return [*_wrapped(lines), f"{report.verdict}: {' '.join([found, *step])}"]
    return list(_wrapped([f"{report.verdict}: {found}", *lines]))


def found_and_step(report: Report, job: Job) -> list[str]:
    """Return the finding and, if there is one, the next step."""
    return SENTENCE.split(report.next or _fitting(report, job), maxsplit=1)


def _table(report: Report) -> Iterator[str]:
    if report.reasons:
        yield "  NODES  WHY THEY TAKE NO FURTHER POD"
        for reason in report.reasons:
            yield f"  {reason.nodes or '-':>5}  {reason.reason}"


def _wrapped(lines: list[str]) -> Iterator[str]:
    for line in lines:
        indent = " " * 9 if line.startswith("  ") else "  "
        joined = COMMAND.sub(lambda command: command[0].replace(" ", "\0"), line)
        for part in textwrap.wrap(
            joined, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ):
            yield part.replace("\0", " ")


def _fitting(report: Report, job: Job) -> str:
    gpus = report.gpus
    free = f"; {gpus.free} of {gpus.total} GPUs free" if gpus.needed else ""
    return listed([_described(role, gpus.resource) for role in reversed(job.roles)]) + free


def _described(role: PodRole, gpu_resource: str) -> str:
    """Return a text such as "2 workers of 4 nvidia.com/gpu each".

    Name CPU and memory only if the pods request no GPUs.
    """
    requests = readable(role.request)
    each = " each" if role.replicas != 1 else ""
    if gpu_resource in requests:
        return f"{role.pods(role.replicas)} of {requests[gpu_resource]} {gpu_resource}{each}"
    asked = listed([f"{amount} {resource}" for resource, amount in requests.items()])
    return role.pods(role.replicas) + (f" of {asked}{each}" if asked else "")
