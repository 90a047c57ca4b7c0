"""End the job that is to be replaced under its own name, before Helm makes the new one.

Helm would change the running job in place: no operator gives pods that run another image, and Kubernetes refuses a Job
another pod template. For Helm alone that takes a hook, whose pod has to find a node with the image. Here it is done
with the user's own rights, and without hooks.
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

# The pods have 55 s to save and to end.
SECONDS = 240.0
POLL_SECONDS = 0.5
SECONDS_BETWEEN_REPORTS = 10.0


def end(
    cluster: Cluster, resources: Sequence[Resource], namespace: str, release: str, say: Callable[[str], None]
) -> None:
    """Delete the resources and wait until they and their pods are gone; raises EndError when that takes too long."""
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
