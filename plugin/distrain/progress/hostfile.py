"""Make kubelet update the hostfile in a running launcher as soon as the number of workers has changed.

kubelet updates a mounted ConfigMap only after one or two minutes, but immediately when the pod itself changes.
"""

from __future__ import annotations

import contextlib
import time

from distrain.apiserver.cluster import Cluster
from distrain.errors import DistrainError
from distrain.progress.start import role_of
from distrain.workload.manifest import WORKER, Job

REVISION = "distrain/revision"
LAUNCHER = "launcher"
# The operator reacts to a new number of workers within SECONDS_FOR_PODS. The operator writes the hostfile before it
# creates pods.
SECONDS_FOR_PODS = 5.0
POLL_SECONDS = 0.25


def refresh(cluster: Cluster, job: Job, release: str, namespace: str, revision: int) -> None:
    """Annotate the launcher's pod with the revision when all worker pods exist, or after SECONDS_FOR_PODS.

    Do nothing if the job has no launcher. Errors are ignored: without the annotation, the launcher only gets the new
    hostfile later.
    """
    if all(role.name != LAUNCHER for role in job.roles):
        return
    deadline = time.monotonic() + SECONDS_FOR_PODS
    with contextlib.suppress(DistrainError):
        while True:
            pods = [pod for pod in cluster.release_pods(namespace, release) if pod.metadata.deletion_timestamp is None]
            roles = list(map(role_of, pods))
            if roles.count(WORKER) >= job.main.replicas or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        for pod, role in zip(pods, roles, strict=True):
            if role == LAUNCHER and pod.status.phase == "Running":
                cluster.annotate_pod(namespace, pod.metadata.name, {REVISION: str(revision)})
