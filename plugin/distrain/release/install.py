"""Install a job that fits: refuse before anything is created, and take back what could not start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from distrain.check.report import Report
from distrain.cluster import Cluster
from distrain.errors import DoesNotFitError, HelmError, NameInUseError, StartError, UnreachableError
from distrain.helm import Helm, Source
from distrain.release.wait import Followed, until_started
from distrain.target import Target

MAY_WAIT = ("depends", "busy")


@dataclass(frozen=True, slots=True)
class Release:
    """What is to be installed, and where."""

    name: str
    source: Source
    target: Target


def refuse_taken_name(helm: Helm, release: Release) -> None:
    """Raise NameInUseError when there is a release of this name already, in whatever state."""
    name, namespace = release.name, release.target.namespace
    status = helm.release_status(name, release.target)
    if status is not None:
        raise NameInUseError(
            f"{name}: a release of this name is {status} in namespace {namespace}; choose another name, change it with "
            f"`helm upgrade {name}`, or remove it with `helm uninstall {name} --namespace {namespace}`"
        )


def refuse_what_does_not_fit(report: Report, *, allow_busy: bool) -> None:
    """Raise DoesNotFitError unless the job fits, or may wait for room and the user lets it."""
    if report.verdict == "fits" or (allow_busy and report.verdict in MAY_WAIT):
        return
    wait = " To install it all the same and let it wait, add --allow-busy." if report.verdict in MAY_WAIT else ""
    raise DoesNotFitError(f"{report.verdict}: {report.next}{wait}", report.exit_code)


def install(helm: Helm, release: Release, *, create_namespace: bool) -> str:
    """Install the release and return its notes; what a failed attempt has left is removed again."""
    try:
        return helm.install(release.name, release.source, release.target, create_namespace=create_namespace)
    except HelmError as error:
        raise HelmError(f"{release.name}: Helm could not install it: {error}", _take_back(helm, release)) from error


def follow(cluster: Cluster, helm: Helm, release: Release, followed: Followed, say: Callable[[str], None]) -> None:
    """Wait until the job has started; one that cannot is uninstalled again."""
    try:
        until_started(cluster, followed, say)
    except StartError as error:
        raise StartError(*error.messages, _take_back(helm, release)) from error
    except UnreachableError as error:
        raise UnreachableError(*error.messages, f"{release.name}: stays installed; {remains(release)}") from error


def _take_back(helm: Helm, release: Release) -> str:
    try:
        helm.uninstall(release.name, release.target)
    except HelmError as error:
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
