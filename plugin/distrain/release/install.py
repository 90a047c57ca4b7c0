"""Install a job; if the installation fails, remove everything that it created."""

from __future__ import annotations

from functools import partial

from distrain.errors import DistrainError, GoneError, LateError, NameInUseError, StartError, UnsettledError
from distrain.helm.releases import Operation, Releases, Status
from distrain.progress.wait import Followed
from distrain.release import namespace, uninstalled
from distrain.release.namespace import MadeNamespace
from distrain.release.others import change_by_others
from distrain.release.transaction import Release, Tools, all_or_nothing, carry_out, wait_for_server, watched


def refuse_taken_name(helm: Releases, release: Release) -> None:
    """Raise NameInUseError if a release of this name exists, whatever its status is."""
    name, target = release.name, release.target
    status = helm.status(name, target)
    if status is None:
        return
    change, remove = _other_change(helm, release, status), f"remove it with `helm uninstall {name} {target.helm_flags}`"
    raise NameInUseError(
        f"{name}: a release of this name is {status.word} in namespace {target.namespace}; choose another name, "
        f"{change}or {remove}"
    )


def _other_change(helm: Releases, release: Release, status: Status) -> str:
    """Return what to do with a release of this status instead, with a comma, or an empty string."""
    name, flags = release.name, release.target.helm_flags
    if status.word == "deployed":
        return f"change it with `helm distrain upgrade {name} {flags}`, "
    if status.word == "uninstalled":
        return f"install it again with `helm distrain upgrade --install {name} {flags}`, "
    if status.word == "uninstalling" or status.word.startswith("pending-"):
        return "wait if another helm command is still changing it, "
    before = helm.last_applied(name, release.target)
    return f"undo its last change with `helm rollback {name} {before} {flags}`, " if before else ""


def install(
    tools: Tools,
    release: Release,
    operation: Operation,
    manifest: str,
    *,
    create_namespace: bool,
    followed: Followed | None,
) -> None:
    """Install the release and print its notes; with `followed`, wait until the job has started.

    `manifest` contains the objects of the release. After Ctrl-C, SIGTERM or a failure of Helm, remove the release and
    the namespace that this installation created.
    """
    made = namespace.make(tools.cluster, release.target.namespace, operation.name) if create_namespace else None
    installed = False

    def take_back() -> list[str]:
        return _take_back(tools, release, operation, manifest, made, installed=installed)

    def change() -> str:
        nonlocal installed
        notes = tools.helm.install(release.name, release.source, release.target, operation)
        installed = True
        with tools.interrupts.allowed():
            _require_deployed(tools, release, operation)
        return notes

    with all_or_nothing(tools, take_back, partial(_stays, tools, release, operation)):
        carry_out(tools, change, f"{release.name}: Helm could not install it", followed)


def _require_deployed(tools: Tools, release: Release, operation: Operation) -> None:
    """Raise UnsettledError unless the release's status is "deployed".

    Helm reports success even if the API server did not answer when Helm recorded the status at the end.
    """
    name, flags = release.name, release.target.helm_flags
    try:
        wait_for_server(tools.cluster)
        status = tools.helm.status_of(name, operation, release.target)
    except DistrainError as error:
        raise UnsettledError(f"{name}: Helm has installed it, but its status cannot be read: {error}") from error
    if status != "deployed":
        settle = f"`helm rollback {name} {operation.uninstalled + 1} {flags}` corrects it"
        raise UnsettledError(f"{name}: Helm has installed it, but its status is {status or 'unknown'}; {settle}")


def _stays(tools: Tools, release: Release, operation: Operation, error: Exception) -> str:
    """Return a line for the report if an installation failed and is not undone.

    The line says what remains in the cluster, and what the user should do.
    """
    if isinstance(error, (StartError, GoneError)):
        others = change_by_others(tools.helm, release, operation)
        may_start = f" and may still start; {remains(release)}"
        next_step = may_start if isinstance(error, LateError) else f"; {_mend(release)}"
        return others or f"{release.name}: stays installed{next_step}"
    return f"{release.name}: is left as it is; {remains(release)}"


def _take_back(
    tools: Tools,
    release: Release,
    operation: Operation,
    manifest: str,
    made: MadeNamespace | None,
    *,
    installed: bool,
) -> list[str]:
    """Remove what this installation created, and return what was done.

    If another user has meanwhile created or changed a release of the same name, keep that release. `installed` is true
    if Helm had finished the installation.
    """
    try:
        told = _uninstall(tools, release, operation, manifest, installed=installed)
    except DistrainError as error:
        # The namespace contains objects, or the plugin could not find out whether it does.
        stays = f"{release.name}: the installation could not be undone: {error}; {remains(release)}"
        return [stays, *([namespace.stays(made, release.target)] if made else [])]
    return [*told, *([namespace.remove(tools.cluster, made)] if made else [])]


def _uninstall(tools: Tools, release: Release, operation: Operation, manifest: str, *, installed: bool) -> list[str]:
    helm, name = tools.helm, release.name
    if not helm.has_made(name, operation, release.target):
        if installed:
            others = change_by_others(helm, release, operation)
            return [others] if others else []
        is_gone = uninstalled.is_gone(helm.status(name, release.target))
        left = uninstalled.left(tools.cluster, release, manifest) if is_gone else ""
        return [f"{name}: {left}"] if left else []
    helm.uninstall(name, release.target, keeps_history=bool(operation.uninstalled))
    return [f"{name}: uninstalled again"]


def _mend(release: Release) -> str:
    """Return how to repair or remove a release whose job does not start."""
    name, flags = release.name, release.target.helm_flags
    return (
        f"mend it with `helm distrain upgrade {name} {flags} -f ...`, or remove it with `helm uninstall {name} {flags}`"
    )


def remains(release: Release) -> str:
    """Return how to watch or remove a release that this program no longer follows."""
    return f"{watched(release)}, or remove it with `helm uninstall {release.name} {release.target.helm_flags}`"
