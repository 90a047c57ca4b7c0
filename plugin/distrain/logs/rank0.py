"""Find the pod with the main log of a run: its launcher, or the worker that runs rank 0."""

from __future__ import annotations

import time

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.pages import Ahead
from distrain.logs.pods import Look, speakers
from distrain.progress import logs
from distrain.progress.newest import newest_log
from distrain.progress.start import Log


def rank0(cluster: Cluster, found: Look) -> kube.Pod | None:
    """Return the pod with the run's main log, or None if no pod has started.

    Under torchrun any worker may be rank 0. Rank 0 is the worker that has logged the newest step.
    """
    pods = speakers(found)
    if len(pods) < 2:
        return pods[0] if pods else None
    asked = [Ahead(logs.read, cluster, pod.metadata.namespace, pod) for pod in pods]
    read: list[Log] = [ahead.result() for ahead in asked]
    last = newest_log(read, time.time())
    return read[last[0]].pod if last else pods[0]
