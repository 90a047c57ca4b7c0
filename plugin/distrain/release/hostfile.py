"""Have a running launcher see its new workers at once.

kubelet brings a changed ConfigMap into a pod that runs within a minute or two, and at once when the pod changes, too.
"""

from __future__ import annotations

import contextlib
import time

from distrain.apiserver.cluster import Cluster
from distrain.errors import DistrainError
from distrain.workload.manifest import ROLE_LABEL, WORKER, Job

REVISION = "distrain/revision"
LAUNCHER = "launcher"
# In which an operator notices another size. It writes the hostfile before it makes a pod.
SECONDS_FOR_PODS = 5.0
POLL_SECONDS = 0.25


def refresh(cluster: Cluster, job: Job, release: str, namespace: str, revision: int) -> None:
    """Annotate the launcher's pod with the revision once the job has its workers' pods.

    Who may not do that, or is too early, has the launcher see its workers later.
    """
    if all(role.name != LAUNCHER for role in job.roles):
        return
    deadline = time.monotonic() + SECONDS_FOR_PODS
    with contextlib.suppress(DistrainError):
        while True:
            pods = [pod for pod in cluster.release_pods(namespace, release) if pod.metadata.deletion_timestamp is None]
            roles = [(pod.metadata.labels or {}).get(ROLE_LABEL) for pod in pods]
            if roles.count(WORKER) >= job.main.replicas or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        for pod, role in zip(pods, roles, strict=True):
            if role == LAUNCHER and pod.status.phase == "Running":
                cluster.annotate_pod(namespace, pod.metadata.name, {REVISION: str(revision)})
