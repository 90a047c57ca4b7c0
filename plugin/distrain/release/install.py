"""Install a job that fits: refuse before anything is created, and leave nothing behind after a failure."""

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
# What is taken back without a signal: Helm says that it failed, or the job cannot start.
FAILURES = (HelmError, NameInUseError, StartError, ValuesError)


class Release(Struct, frozen=True):
    """What is to be installed, and where."""

    name: str
    source: Source
    target: Target


class Tools(Struct, frozen=True):
    """What changes a release: Helm, the cluster, the signals that are held back meanwhile, and where to tell of it."""

    helm: Releases
    cluster: Cluster
    interrupts: Interrupts
    say: Callable[[str], None]
    answer: Callable[[str], None]


def refuse_taken_name(helm: Releases, release: Release) -> None:
    """Raise NameInUseError when there is a release of this name already, in whatever state."""
    name, namespace = release.name, release.target.namespace
    status = helm.status(name, release.target)
    if status is not None:
        raise NameInUseError(
            f"{name}: a release of this name is {status} in namespace {namespace}; choose another name, change it with "
            f"`helm distrain upgrade {name}`, or remove it with `helm uninstall {name} --namespace {namespace}`"
        )


def refuse_what_does_not_fit(report: Report, *, allow_busy: bool) -> None:
    """Raise DoesNotFitError unless the job fits, or may wait for room and the user lets it."""
    if report.verdict == Verdict.FITS or (allow_busy and report.verdict in MAY_WAIT):
        return
    wait = " To install it all the same and let it wait, add --allow-busy." if report.verdict in MAY_WAIT else ""
    raise DoesNotFitError(f"{report.verdict}: {report.next}{wait}", report.exit_code)


def install(
    tools: Tools, release: Release, operation: Operation, *, create_namespace: bool, followed: Followed | None
) -> None:
    """Install the release and tell its notes; with `followed` wait until the job has started.

    After Ctrl-C, SIGTERM or a failure the cluster is as it was before.
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
    """Let a change go through; after Ctrl-C, SIGTERM or a failure call `take_back` and tell what it says.

    Any other error tells nothing of the release, such as a cluster that falls silent while the job starts: the change
    stays, and `stays` is told.
    """
    try:
        tools.interrupts.check()
        yield
        tools.interrupts.end()
        tools.interrupts.check()
    except (KeyboardInterrupt, *FAILURES) as error:
        tools.interrupts.end()
        told = take_back()
        # A signal may have reached what Helm runs in: then its failure is only a part of the interruption.
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
    """Remove what this installation has made, and no more: the release of that name may be another's; say what."""
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
    """Say how to go on with a release whose start nobody follows any more."""
    name, namespace = release.name, release.target.namespace
    return (
        f"watch it with `kubectl --namespace {namespace} get pods --watch "
        f"--selector app.kubernetes.io/instance={name}`, "
        f"or remove it with `helm uninstall {name} --namespace {namespace}`"
    )
