"""Find out whether someone else has changed a release since this program changed it."""

from __future__ import annotations

from distrain.errors import DistrainError
from distrain.helm.releases import Operation, Releases
from distrain.release.transaction import Release


def change_by_others(helm: Releases, release: Release, operation: Operation) -> str:
    """Return in words how someone else has changed the release since this operation, or "" if nobody has.

    Also returns "" if Helm cannot tell.
    """
    name, target = release.name, release.target
    try:
        status = helm.status(name, target)
        if status is None or status.word == "uninstalled":
            return f"{name}: is no longer installed: someone uninstalled it"
        if helm.has_made(name, operation, target):
            return ""
    except DistrainError:
        return ""
    history = f"`helm history {name} {target.helm_flags}` shows it"
    made = f"someone else has created revision {status.revision} in the meantime, so that revision stays"
    return f"{name}: {made}; {history}"
