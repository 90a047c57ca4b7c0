"""Carry out a plan, or leave the release at the revision that it had."""

from __future__ import annotations

import time
from collections.abc import Callable

from distrain import kube
from distrain.cluster import Cluster, NotFoundError
from distrain.errors import DistrainError, HelmError
from distrain.job import Resource
from distrain.release.changes import named
from distrain.release.install import Release, Tools, all_or_nothing
from distrain.release.plan import Plan
from distrain.release.wait import Followed, until_started
from distrain.releases import Operation

# A pod has 30 s to end, and its node some time to say so.
GONE_SECONDS = 180.0
POLL_SECONDS = 0.5


def upgrade(tools: Tools, release: Release, operation: Operation, planned: Plan, *, followed: Followed | None) -> None:
    """Make the next revision and tell its notes; with `followed` wait until its job has started.

    Whatever ends this early, a signal too, the release is again what its last revision was.
    """
    with all_or_nothing(tools, lambda: _go_back(tools, release, operation, planned)):
        _delete(tools.cluster, planned.deleted, release.target.namespace, tools.interrupts.check)
        notes = _upgrade(tools, release, operation)
        tools.interrupts.check()
        tools.answer(notes)
        if followed:
            with tools.interrupts.allowed():
                until_started(tools.cluster, followed, tools.say)


def _upgrade(tools: Tools, release: Release, operation: Operation) -> str:
    try:
        return tools.helm.upgrade(release.name, release.source, release.target, operation)
    except HelmError as error:
        raise HelmError(f"{release.name}: Helm could not upgrade it: {error}") from error


def _go_back(tools: Tools, release: Release, operation: Operation, planned: Plan) -> list[str]:
    """Return to the revision before where anything was changed, and say so."""
    back = f"helm rollback {release.name} {planned.revision} --namespace {release.target.namespace}"
    try:
        is_whole = all(_stays(tools.cluster, resource, release.target.namespace) for resource in planned.deleted)
        if is_whole and not tools.helm.has_made(release.name, operation, release.target):
            return []
        # Helm would take an object that is leaving for one that is there.
        _until_gone(tools.cluster, planned.deleted, release.target.namespace, _nothing)
        tools.helm.rollback(release.name, planned.revision, release.target, operation)
    except DistrainError as error:
        return [f"{release.name}: could not go back to revision {planned.revision}: {error}; try `{back}`"]
    again = "; its job starts again, from the beginning" if planned.replaces else ""
    return [f"{release.name}: rolled back to revision {planned.revision}{again}"]


def _delete(cluster: Cluster, resources: tuple[Resource, ...], namespace: str, check: Callable[[], None]) -> None:
    check()
    for resource in resources:
        cluster.delete_workload(resource.api_version, resource.kind, namespace, resource.name)
    _until_gone(cluster, resources, namespace, check)


def _until_gone(cluster: Cluster, resources: tuple[Resource, ...], namespace: str, check: Callable[[], None]) -> None:
    """Wait until these that are being deleted are gone, their pods first."""
    deadline = time.monotonic() + GONE_SECONDS
    for resource in resources:
        while _is_leaving(cluster, resource, namespace):
            check()
            if time.monotonic() > deadline:
                raise HelmError(f"{named(resource)}: is still there {GONE_SECONDS:g} s after its deletion")
            time.sleep(POLL_SECONDS)


def _is_leaving(cluster: Cluster, resource: Resource, namespace: str) -> bool:
    try:
        return _metadata(cluster, resource, namespace).deletion_timestamp is not None
    except NotFoundError:
        return False


def _stays(cluster: Cluster, resource: Resource, namespace: str) -> bool:
    """Tell whether nobody has deleted it."""
    try:
        return _metadata(cluster, resource, namespace).deletion_timestamp is None
    except NotFoundError:
        return False


def _metadata(cluster: Cluster, resource: Resource, namespace: str) -> kube.Metadata:
    return cluster.workload(resource.api_version, resource.kind, namespace, resource.name).metadata


def _nothing() -> None:
    """Go on waiting."""
