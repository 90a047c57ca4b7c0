"""Delete the old job and wait until its pods are gone. Only then does Helm create a new job of the same name.

If the old job were kept, Helm would patch it. But no operator updates the image of pods that are running, and the pod
template of a Job is immutable. A Helm hook could delete the job, but such a hook needs a pod on a node that has the
image. This module needs only the permissions of the user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import EndError, UnreachableError
from distrain.kube.resource import Resource
from distrain.release.changes import named
from distrain.workload.manifest import INSTANCE_LABEL, templates_of
from distrain.workload.wording import listed

# `end` waits for SECONDS, or for the pods' grace period plus SECONDS_BEYOND_GRACE if that is longer.
SECONDS = 240.0
SECONDS_BEYOND_GRACE = 60.0
POLL_SECONDS = 0.5
SECONDS_BETWEEN_REPORTS = 10.0
STUCK = "a pod does not end, perhaps because its node is down"


def end(
    cluster: Cluster, resources: Sequence[Resource], namespace: str, release: str, say: Callable[[str], None]
) -> None:
    """Delete the resources and wait until they and their pods are gone.

    Raises EndError if they still exist after SECONDS, or one minute after the grace period of the pods if that is
    later.

    `say` receives a progress line from time to time.
    """
    uids = _delete(cluster, resources, namespace)
    started = reported = time.monotonic()
    left: Mapping[Resource, kube.Workload | None] = dict.fromkeys(uids)
    while True:
        trouble = STUCK
        try:
            left = _left(cluster, uids, namespace)
        except UnreachableError as error:
            # Ignore the error: the API server is already deleting the job, and may answer again before the time limit.
            trouble = str(error)
        if not left:
            return
        now, names, seconds = time.monotonic(), listed([*map(named, left)]), _limit(left.values())
        if now - started > seconds:
            pods = f"`kubectl {cluster.target.kubectl_flags} get pods --selector {INSTANCE_LABEL}={release}`"
            raise EndError(f"{release}: {names} did not end in {seconds:g} s: {trouble}; see its pods with {pods}")
        if reported == started or now - reported > SECONDS_BETWEEN_REPORTS:
            say(f"{names}: its pods save and end")
            reported = now
        time.sleep(POLL_SECONDS)


def _limit(workloads: Iterable[kube.Workload | None]) -> float:
    """Return after how many seconds the workloads and their pods must be gone."""
    return max([SECONDS, *(grace + SECONDS_BEYOND_GRACE for each in workloads for grace in _graces(each))])


def _delete(cluster: Cluster, resources: Sequence[Resource], namespace: str) -> dict[Resource, str]:
    """Delete the resources and return their uids; raise EndError if only some of them could be deleted."""
    uids: dict[Resource, str] = {}
    for resource in resources:
        try:
            uid = cluster.delete_workload(resource, namespace)
        except UnreachableError as error:
            if not uids:
                raise
            raise EndError(*error.messages) from error
        if uid is not None:
            uids[resource] = uid
    return uids


def _left(cluster: Cluster, uids: dict[Resource, str], namespace: str) -> dict[Resource, kube.Workload]:
    """Return those resources that still exist. A new resource with the same name has another uid."""
    found = {resource: cluster.workload(resource, namespace) for resource in uids}
    return {resource: each for resource, each in found.items() if each and each.metadata.uid == uids[resource]}


def _graces(workload: kube.Workload | None) -> list[int]:
    """Return the grace periods that the workload's pod templates set, in seconds."""
    if workload is None:
        return []
    pods = [template.spec for template in templates_of(workload.spec) if template and template.spec]
    return [pod.termination_grace_period_seconds for pod in pods if pod.termination_grace_period_seconds is not None]
