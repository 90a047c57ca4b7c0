"""Install a job if it fits, and remove everything again if the installation fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target
from distrain.check.report import Report
from distrain.errors import (
    DistrainError,
    DoesNotFitError,
    HelmError,
    NameInUseError,
    StartError,
    StoppedError,
    ValuesError,
)
from distrain.helm.program import Source
from distrain.release import namespace
from distrain.release.interrupts import Interrupts
from distrain.release.namespace import MadeNamespace
from distrain.release.wait import Followed, until_started
from distrain.verdict import Verdict

if TYPE_CHECKING:  # pyhelm3's import takes a quarter of a second, and `check` installs nothing
    from distrain.helm.releases import Operation, Releases

MAY_WAIT = (Verdict.DEPENDS, Verdict.BUSY)
# Errors that undo a change: Helm failed, or the job cannot start.
FAILURES = (HelmError, NameInUseError, StartError, ValuesError)


class Release(Struct, frozen=True):
    """The release to install, its chart and values, and its namespace."""

    name: str
    source: Source
    target: Target


class Tools(Struct, frozen=True):
    """What an installation or upgrade works with: Helm, the cluster, held-back signals, and two ways to print."""

    helm: Releases
    cluster: Cluster
    interrupts: Interrupts
    say: Callable[[str], None]
    answer: Callable[[str], None]


def refuse_taken_name(helm: Releases, release: Release) -> None:
    """Raise NameInUseError if a release of this name exists, whatever its status."""
    name, namespace = release.name, release.target.namespace
    status = helm.status(name, release.target)
    if status is not None:
        raise NameInUseError(
            f"{name}: a release of this name is {status} in namespace {namespace}; choose another name, change it with "
            f"`helm distrain upgrade {name}`, or remove it with `helm uninstall {name} --namespace {namespace}`"
        )


def refuse_what_does_not_fit(report: Report, *, allow_busy: bool) -> None:
    """Raise DoesNotFitError unless the job fits, or may fit later and the user gave --allow-busy."""
    if report.verdict == Verdict.FITS or (allow_busy and report.verdict in MAY_WAIT):
        return
    wait = " To install it all the same and let it wait, add --allow-busy." if report.verdict in MAY_WAIT else ""
    raise DoesNotFitError(f"{report.verdict}: {report.next}{wait}", report.exit_code)


def install(
    tools: Tools, release: Release, operation: Operation, *, create_namespace: bool, followed: Followed | None
) -> None:
    """Install the release and print its notes; with `followed`, wait until the job has started.

    After Ctrl-C, SIGTERM or a failure, remove the release and the namespace that this installation created.
    """
    made = namespace.make(tools.cluster, release.target.namespace) if create_namespace else None

    def take_back() -> list[str]:
        return _take_back(tools, release, operation, made)

    with all_or_nothing(tools, take_back, f"{release.name}: is left as it is; {remains(release)}"):
        notes = _install(tools.helm, release, operation)
        tools.interrupts.check()
        tools.answer(notes)
        if followed:
            with tools.interrupts.allowed():
                until_started(tools.cluster, followed, tools.say)


@contextmanager
def all_or_nothing(tools: Tools, take_back: Callable[[], list[str]], stays: str) -> Iterator[None]:
    """Run a change; after Ctrl-C, SIGTERM or one of FAILURES call `take_back` and report what it returns.

    Any other error does not mean that the change failed; for example the API server may stop answering while the job
    starts. The change then stays, and `stays` is reported.
    """
    try:
        tools.interrupts.check()
        yield
        tools.interrupts.end()
        tools.interrupts.check()
    except (KeyboardInterrupt, *FAILURES) as error:
        tools.interrupts.end()
        told = take_back()
        # The signal may have ended Helm's process, too; then Helm's error only results from the interruption.
        if isinstance(error, DistrainError) and not tools.interrupts.came:
            error.messages = (*error.messages, *told)
            raise
        raise StoppedError("interrupted" + ("" if told else "; nothing was changed"), *told) from error
    except DistrainError as error:
        error.messages = (*error.messages, stays)
        raise
    except Exception:
        tools.say(stays)
        raise


def _install(helm: Releases, release: Release, operation: Operation) -> str:
    try:
        return helm.install(release.name, release.source, release.target, operation)
    except HelmError as error:
        raise HelmError(f"{release.name}: Helm could not install it: {error}") from error


def _take_back(tools: Tools, release: Release, operation: Operation, made: MadeNamespace | None) -> list[str]:
    """Remove what this installation created, and return what was done.

    A release of the same name that another user created stays.
    """
    told = [_uninstall(tools.helm, release, operation)]
    if made:
        told.append(namespace.remove(tools.cluster, made))
    return list(filter(None, told))


def _uninstall(helm: Releases, release: Release, operation: Operation) -> str:
    try:
        if not helm.has_made(release.name, operation, release.target):
            return ""
        helm.uninstall(release.name, release.target)
    except DistrainError as error:
        return f"{release.name}: could not be uninstalled again: {error}; {remains(release)}"
    return f"{release.name}: uninstalled again"


def remains(release: Release) -> str:
    """Return how to watch or remove a release that this program no longer follows."""
    name, namespace = release.name, release.target.namespace
    return (
        f"watch it with `kubectl --namespace {namespace} get pods --watch "
        f"--selector app.kubernetes.io/instance={name}`, "
        f"or remove it with `helm uninstall {name} --namespace {namespace}`"
    )
