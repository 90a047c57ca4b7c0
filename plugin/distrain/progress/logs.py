"""Read the logs of those pods that report the steps of a training."""

from __future__ import annotations

from collections.abc import Sequence

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.errors import ForbiddenError, UnreachableError
from distrain.kube.pod_status import ENDED
from distrain.progress.start import SPEAKERS, Log, main_container, role_of
from distrain.workload.manifest import WORKER, Job

# The plugin reads LINES log lines: enough to find some step lines among the framework's own output.
LINES = 500
# Under torchrun any worker may be rank 0, but only the logs of the first workers are read.
ASKED_WORKERS = 4
# After a failure, the plugin reads at most MOST_READ further logs.
MOST_READ = 16
# In these phases of a pod, its containers have started, so they may have a log.
PHASES = ("Running", *ENDED)


def speakers(pods: Sequence[kube.Pod], phases: Sequence[str] = ("Running",)) -> list[kube.Pod]:
    """Return the pods whose logs may report steps: the launcher, Chief or Master, otherwise the first workers.

    Pods in other phases, and pods that Kubernetes is deleting, are left out. If a launcher has succeeded, no workers
    are returned in its place.
    """
    running = [pod for pod in pods if pod.status.phase in phases and pod.metadata.deletion_timestamp is None]
    roles = {role: [pod for pod in running if role_of(pod) == role] for role in (*SPEAKERS, WORKER)}
    workers = sorted(roles.pop(WORKER), key=lambda pod: (len(pod.metadata.name), pod.metadata.name))
    has_ended = any(role_of(pod) in SPEAKERS and pod.status.phase == "Succeeded" for pod in pods)
    return [pod for found in roles.values() for pod in found] or ([] if has_ended else workers[:ASKED_WORKERS])


def main_role(job: Job) -> str:
    """Return the role whose pods may have the run's main log: launcher, Chief or Master, otherwise worker."""
    return next((role.component for role in job.roles if role.component in SPEAKERS), WORKER)


def has_main_log(pods: Sequence[kube.Pod], job: Job) -> bool:
    """Tell whether a pod that may have the run's main log has started."""
    main = main_role(job)
    return any(role_of(pod) == main and pod.status.phase in PHASES for pod in pods)


def workers_of(job: Job) -> int:
    return sum(role.replicas for role in job.roles if role.component == WORKER)


def may_lack_main_log(pods: Sequence[kube.Pod], job: Job) -> bool:
    """Tell whether the pod with the run's main log may be gone.

    If the main log is in a worker, any worker may be the one, so all workers' pods must be there and have started.
    """
    main = main_role(job)
    wanted = workers_of(job) if main == WORKER else 1
    return sum(role_of(pod) == main and pod.status.phase in PHASES for pod in pods) < wanted


def last_speakers(pods: Sequence[kube.Pod]) -> list[kube.Pod]:
    """Return the pods that may report steps and run or have succeeded; if there are none, the pods that have failed."""
    return speakers(pods, ("Running", "Succeeded")) or speakers(pods, PHASES)


def after_end(pods: Sequence[kube.Pod]) -> list[kube.Pod]:
    """Return the pods whose logs may say how a job has ended: those that report steps, otherwise those that failed."""
    return speakers(pods, PHASES) or [pod for pod in pods if pod.status.phase == "Failed"][:MOST_READ]


def read(cluster: Cluster, namespace: str, pod: kube.Pod) -> Log:
    """Return the last lines of the pod's log.

    A log that cannot be read, for example before the pod has started, counts as empty.
    """
    return Log(pod, _text(cluster, namespace, pod.metadata.name, main_container(pod)), cluster.target.kubectl_flags)


def _text(cluster: Cluster, namespace: str, pod: str, container: str) -> str | None:
    try:
        return cluster.log(namespace, pod, container, LINES)
    except ForbiddenError:
        return None
    except UnreachableError:
        return ""
