"""Delete the old job and wait until its pods are gone, before Helm creates a new job of the same name.

Helm alone would patch the running job. No operator gives a new image to running pods, and a Job's pod template is
immutable. A Helm hook could delete the job instead, but needs a pod on a node that has the image. This module uses the
user's own rights and no hook.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import EndError
from distrain.kube.resource import Resource
from distrain.release.changes import named
from distrain.workload.manifest import INSTANCE_LABEL, templates_of
from distrain.workload.wording import listed

# The least timeout, and the seconds beyond a longer grace period of the pods.
SECONDS = 240.0
SECONDS_BEYOND_GRACE = 60.0
POLL_SECONDS = 0.5
SECONDS_BETWEEN_REPORTS = 10.0


def end(
    cluster: Cluster, resources: Sequence[Resource], namespace: str, release: str, say: Callable[[str], None]
) -> None:
    """Delete the resources and wait until they and their pods are gone.

    Raises EndError after SECONDS, or after the pods' grace period and a minute where that is longer.

    `say` receives a progress line now and then.
    """
    uids = {resource: cluster.delete_workload(resource, namespace) for resource in resources}
    started = reported = time.monotonic()
    while left := _left(cluster, uids, namespace):
        now, names = time.monotonic(), listed([named(resource) for resource in left])
        seconds = max([SECONDS, *(grace + SECONDS_BEYOND_GRACE for each in left.values() for grace in _graces(each))])
        if now - started > seconds:
            raise EndError(
                f"{release}: {names} has not ended in {seconds:g} s: a pod does not end, perhaps on a node that is "
                f"down; see `kubectl --namespace {namespace} get pods --selector {INSTANCE_LABEL}={release}`"
            )
        if reported == started or now - reported > SECONDS_BETWEEN_REPORTS:
            say(f"{names}: its pods save and end")
            reported = now
        time.sleep(POLL_SECONDS)


def _left(cluster: Cluster, uids: dict[Resource, str | None], namespace: str) -> dict[Resource, kube.Workload]:
    """Return the resources that still exist; a new one of the same name has another uid."""
    found = {resource: cluster.workload(resource, namespace) for resource, uid in uids.items() if uid is not None}
    return {resource: each for resource, each in found.items() if each and each.metadata.uid == uids[resource]}


def _graces(workload: kube.Workload) -> list[int]:
    """Return the grace periods that the workload's pod templates set, in seconds."""
    pods = [template.spec for template in templates_of(workload.spec) if template and template.spec]
    return [pod.termination_grace_period_seconds for pod in pods if pod.termination_grace_period_seconds is not None]
