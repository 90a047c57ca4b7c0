"""Delete the old job and wait until its pods are gone, before Helm creates a new job of the same name.

Helm alone would patch the running job. No operator gives a new image to running pods, and a Job's pod template is
immutable. A Helm hook could delete the job instead, but needs a pod on a node that has the image. This module uses the
user's own rights and no hook.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from distrain.apiserver.cluster import Cluster
from distrain.errors import EndError, NotFoundError
from distrain.kube.resource import Resource
from distrain.release.changes import named
from distrain.workload.manifest import INSTANCE_LABEL
from distrain.workload.wording import listed

# Timeout; the pods have 55 s to save a checkpoint and exit.
SECONDS = 240.0
POLL_SECONDS = 0.5
SECONDS_BETWEEN_REPORTS = 10.0


def end(
    cluster: Cluster, resources: Sequence[Resource], namespace: str, release: str, say: Callable[[str], None]
) -> None:
    """Delete the resources and wait until they and their pods are gone; raise EndError after SECONDS.

    `say` receives a progress line now and then.
    """
    uids = {resource: cluster.delete_workload(resource, namespace) for resource in resources}
    started = reported = time.monotonic()
    while left := [resource for resource, uid in uids.items() if _is_there(cluster, resource, namespace, uid)]:
        now, names = time.monotonic(), listed([named(resource) for resource in left])
        if now - started > SECONDS:
            raise EndError(
                f"{release}: {names} has not ended in {SECONDS:g} s: a pod does not end, perhaps on a node that is "
                f"down; see `kubectl --namespace {namespace} get pods --selector {INSTANCE_LABEL}={release}`"
            )
        if reported == started or now - reported > SECONDS_BETWEEN_REPORTS:
            say(f"{names}: its pods save and end")
            reported = now
        time.sleep(POLL_SECONDS)


def _is_there(cluster: Cluster, resource: Resource, namespace: str, uid: str | None) -> bool:
    if uid is None:
        return False
    try:
        found = cluster.workload(resource.api_version, resource.kind, namespace, resource.name)
    except NotFoundError:
        return False
    return found.metadata.uid == uid
