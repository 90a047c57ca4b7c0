"""Carry out a planned upgrade, or restore the previous revision."""

from __future__ import annotations

from collections.abc import Callable

from distrain.errors import DistrainError, EndError, GoneError, LateError, RecreatedError, StartError
from distrain.helm.releases import Operation
from distrain.progress.wait import Followed
from distrain.release import uninstalled
from distrain.release.ending import end
from distrain.release.others import change_by_others
from distrain.release.plan import Plan
from distrain.release.transaction import Release, Tools, all_or_nothing, carry_out, wait_for_server, watched


def upgrade(
    tools: Tools,
    release: Release,
    operation: Operation,
    planned: Plan,
    manifest: str,
    *,
    followed: Followed | None,
    refresh: Callable[[], None] = lambda: None,
) -> None:
    """Upgrade the release and print its notes; with `followed`, wait until the job has started.

    `manifest` contains the objects of the release after the upgrade.

    `refresh` is called before this wait. It makes a running job change to its new size at once, and raises
    RecreatedError if Helm has created this job anew. After Ctrl-C, SIGTERM or a failure of Helm, roll back to the
    previous revision.
    """
    ended = upgraded = False

    def go_back() -> list[str]:
        if others := _change_by_others(tools, release, operation, planned, manifest, upgraded=upgraded):
            return [others]
        return _go_back(tools, release, operation, planned, ended=ended)

    def stays(error: Exception) -> str:
        if isinstance(error, (StartError, GoneError)):
            others = change_by_others(tools.helm, release, operation)
            return others or f"{release.name}: stays upgraded{_next_step(release, planned, error)}"
        if isinstance(error, RecreatedError):
            again = f"{release.name}: exists again, with a new job"
            return f"{again}; `helm uninstall {release.name} {release.target.helm_flags}` removes it"
        deleted = "its job is deleted; once its pods are gone,"
        state = deleted if isinstance(error, EndError) else "is left as it is;"
        return f"{release.name}: {state} {_back(release, planned)} restores revision {planned.revision}"

    def change() -> str:
        nonlocal upgraded
        notes = tools.helm.upgrade(release.name, release.source, release.target, operation)
        upgraded = True
        refresh()
        return notes

    with all_or_nothing(tools, go_back, stays):
        if planned.ends:
            _end(tools, release, planned)
            ended = True
            tools.interrupts.check()
        carry_out(tools, change, f"{release.name}: Helm could not upgrade it", followed)


def _end(tools: Tools, release: Release, planned: Plan) -> None:
    end(tools.cluster, planned.ends, release.target.namespace, release.name, tools.say)


def _change_by_others(
    tools: Tools, release: Release, operation: Operation, planned: Plan, manifest: str, *, upgraded: bool
) -> str:
    """Return in words how someone else has changed the release meanwhile, or "" if nobody has.

    `upgraded` is true if Helm had finished the upgrade.
    """
    if upgraded:
        return change_by_others(tools.helm, release, operation)
    try:
        status = tools.helm.status(release.name, release.target)
    except DistrainError:
        return ""
    if uninstalled.is_gone(status):
        left = uninstalled.left(tools.cluster, release, manifest) or "nothing of it is left"
        return f"{release.name}: someone uninstalled it during the upgrade; {left}"
    return "" if status and status.revision == planned.revision else change_by_others(tools.helm, release, operation)


def _go_back(tools: Tools, release: Release, operation: Operation, planned: Plan, *, ended: bool) -> list[str]:
    """Roll back to the previous revision if anything was changed. Return what was done.

    `ended` is true if the old job has already been deleted. Nothing trains then, so this function waits until the API
    server answers.
    """
    try:
        if ended:
            wait_for_server(tools.cluster)
        if tools.helm.has_made(release.name, operation, release.target):
            # Objects with these names may now belong to the new job.
            _end(tools, release, planned)
        elif not ended:
            return []
        tools.helm.rollback(release.name, planned.revision, release.target, operation)
    except DistrainError as error:
        next_step = f"{'its job is deleted; ' if ended else ''}try {_back(release, planned)}"
        return [f"{release.name}: could not go back to revision {planned.revision}: {error}; {next_step}"]
    again = "; its job starts again" if planned.replaces else ""
    return [f"{release.name}: rolled back to revision {planned.revision}{again}"]


def _next_step(release: Release, planned: Plan, error: Exception) -> str:
    """Return the next step: repair the release, watch a job that is only late, or go back to the previous revision."""
    mend = f"; mend it with `helm distrain upgrade {release.name} {release.target.helm_flags} -f ...`"
    step = f" and may still start; {watched(release)}" if isinstance(error, LateError) else mend
    return f"{step}, or go back to revision {planned.revision} with {_back(release, planned)}"


def _back(release: Release, planned: Plan) -> str:
    return f"`helm rollback {release.name} {planned.revision} {release.target.helm_flags}`"
