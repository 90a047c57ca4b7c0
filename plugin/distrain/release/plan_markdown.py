"""Write the plan of an upgrade as Markdown, for a comment in a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from distrain.errors import RefusedError
from distrain.markdown import code, text
from distrain.release import plan
from distrain.release.changes import IGNORED, Change
from distrain.release.plan import Before, Plan
from distrain.workload.manifest import Job
from distrain.workload.suspension import is_suspended

# A list in the comment has at most MOST lines. GitHub and GitLab refuse a comment with too many characters.
MOST = 40


class Sizes(Struct, frozen=True):
    """The number of GPUs that the job's pods use before and after the change. A suspended job has no pods."""

    resource: str
    before: int
    after: int


def sizes(before: Job, after: Job, resource: str) -> Sizes:
    return Sizes(resource, _gpus(before, resource), _gpus(after, resource))


def _gpus(job: Job, resource: str) -> int:
    if is_suspended(job):
        return 0
    return sum(role.replicas * role.request.get(resource, 0) for role in job.roles)


def lines(planned: Plan, before: Before, gpus: Sizes, verdict: str, *, has_trainer: bool) -> Iterator[str]:
    """Yield the plan line by line; `verdict` is empty if no cluster was asked."""
    refusals = _refusals(planned, before)
    yield f"### {code(planned.release)}: {_headline(planned, before, is_refused=bool(refusals))}"
    yield ""
    yield from (f"- **Refused:** {text(words)}" for words in refusals)
    if planned.is_empty:
        yield "- The rendered objects and the values are the same."
        return
    yield from _listed("Values", [f"{code(path)}: {code(how)}" for path, how in planned.values.items()])
    yield from _listed("Effect", [_effect(change) for change in planned.changes])
    same = " (unchanged)" if gpus.before == gpus.after else ""
    yield f"- **GPUs:** {gpus.before} before, {gpus.after} after{same}, {code(gpus.resource)}"
    more = [*plan.deletion(planned), *plan.suspension(planned, has_trainer=has_trainer)]
    yield from (f"- **{word.capitalize()}:** {text(words)}" for word, words in more)
    yield f"- **Lost:** {text(plan.loss(planned, before, has_trainer=has_trainer))}"
    if planned.replaces and planned.queue:
        yield f"- **Queue:** {code(planned.queue)}: Kueue queues the new job anew; nothing trains until it is admitted"
    if verdict:
        yield f"- **Verdict:** {text(verdict)}"


def _headline(planned: Plan, before: Before, *, is_refused: bool) -> str:
    if is_refused:
        return "would be refused"
    if planned.is_empty:
        return "nothing changes"
    if planned.replaces:
        new = "a new, suspended job" if planned.is_suspended else "a new job"
        old = "suspended" if planned.was_suspended else "running"
        by_hand = ", once someone has deleted that" if planned.by_hand else ""
        return f"{new} replaces the {old} one{by_hand}" if before.is_there and not before.end else new
    if planned.suspends or planned.resumes:
        return "suspends the job" if planned.suspends else "resumes the job"
    return "rescales live" if planned.resizes else "stays as it is"


def _refusals(planned: Plan, before: Before) -> Sequence[str]:
    try:
        plan.refuse_traps(planned, before)
    except RefusedError as error:
        return error.messages
    return ()


def _effect(change: Change) -> str:
    words = "never applied" if change.effect == IGNORED else change.effect
    return f"{words}: {code(change.what)}: {code(change.how)}"


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    if not items:
        return
    yield f"- **{title}:**"
    yield from (f"  - {item}" for item in items[:MOST])
    if len(items) > MOST:
        yield f"  - and {len(items) - MOST} more"
