"""Find a run's pods, choose the pod with the run's main log (the launcher or rank 0), and give the pods short names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from distrain import kube
from distrain.errors import ForbiddenError
from distrain.kube.pod_status import ENDED
from distrain.logs.stamps import parsed
from distrain.progress import logs
from distrain.progress.logs import PHASES
from distrain.progress.start import SPEAKERS, main_container, own_pods, role_of
from distrain.status.read import has_ended_job, is_keygen, of_present
from distrain.status.sources import Source, Unread
from distrain.workload.live_job import LiveObject, live_job
from distrain.workload.manifest import ROLES, WORKER
from distrain.workload.suspension import is_suspended


class Look(Struct, frozen=True):
    """A run at one moment: the objects and pods of its current job, and all pods of the release, by uid."""

    objects: Sequence[LiveObject]
    pods: Sequence[kube.Pod]
    by_uid: Mapping[str, kube.Pod]

    @property
    def has_ended(self) -> bool:
        return has_ended_job(self.objects)

    @property
    def workers_speak(self) -> bool:
        """Tell whether the job has no launcher, Chief or Master.

        Without these roles, one of the first workers is rank 0.
        """
        return bool(self.objects) and main_role(self) == WORKER


def look(source: Source, unread: Unread, helm_flags: str) -> Look:
    """Return the run of this release. If the release has no job in the cluster, the returned Look has no objects.

    Raise ForbiddenError if the user has no permission to read any job; `helm_flags` are for the command in its message.
    """
    jobs = source.jobs(unread)
    if not jobs and unread:
        raise ForbiddenError(*unread.lines(helm_flags))
    all_pods = source.pods(unread)
    by_uid = {pod.metadata.uid: pod for pod in all_pods}
    # When a Plain job is deleted, the Job that created its SSH key may remain.
    if all(map(is_keygen, jobs)):
        return Look((), (), by_uid)
    present, _ = of_present(jobs)
    own = own_pods([workload for _, workload in present], all_pods)
    return Look(present, sorted(own, key=_place), by_uid)


def speakers(found: Look) -> list[kube.Pod]:
    """Return the pods that may have the run's main log: the launcher, or the first workers, one of which is rank 0.

    Running pods come first.
    """
    if not found.objects:
        return []
    if found.workers_speak:
        return logs.last_speakers(found.pods)
    return sorted((pod for pod in started(found.pods) if role_of(pod) in SPEAKERS), key=_born, reverse=True)[:1]


def missing(found: Look) -> str:
    """Say why the run has no main log: the log of its launcher, or of one of the first workers.

    Return an empty text if one of these pods has started.
    """
    if not found.objects or speakers(found):
        return ""
    pods, component = started(found.pods), main_role(found)
    if found.has_ended or is_suspended(live_job(found.objects)):
        return f"no log of its {component} is left"
    if not pods:
        return "no pod has started yet"
    waiting = [pod.metadata.name for pod in found.pods if role_of(pod) == component and pod not in pods]
    return f"{waiting[0]} has not started" if waiting else f"its {component} has no pod now"


def workers_gone(found: Look) -> list[str]:
    """If a run has ended and its main log may be in a worker, return the workers whose log is gone."""
    if not found.has_ended or not found.workers_speak:
        return []
    left = {title(pod) for pod in started(found.pods)}
    workers = map(f"{WORKER}-{{}}".format, range(logs.workers_of(live_job(found.objects))))
    return [name for name in workers if name not in left]


def main_role(found: Look) -> str:
    """Return the role of the pods that may have the run's main log."""
    return logs.main_role(live_job(found.objects))


def started(pods: Sequence[kube.Pod]) -> list[kube.Pod]:
    """Return the pods whose main container has started, so that it may have a log."""
    return [pod for pod in pods if pod.status.phase in PHASES]


def has_ended(pod: kube.Pod) -> bool:
    """Tell whether the pod's main container has ended and will not be started again."""
    status = main_status(pod)
    is_terminated = bool(status and status.state and status.state.terminated)
    return pod.status.phase in ENDED or (pod.metadata.deletion_timestamp is not None and is_terminated)


def main_status(pod: kube.Pod) -> kube.ContainerStatus | None:
    name = main_container(pod)
    return next((each for each in pod.status.container_statuses or () if each.name == name), None)


def born_again(pod: kube.Pod) -> int | None:
    """If the main container has restarted, return the second at which it last started."""
    status = main_status(pod)
    if status is None or not status.restart_count or not status.state or not status.state.running:
        return None
    return parsed(status.state.running.started_at)


def title(pod: kube.Pod) -> str:
    """Return the pod's role, followed by its number if the role has several pods: `worker-3`, `launcher`."""
    role, name = role_of(pod), pod.metadata.name
    number = re.search(rf"-{re.escape(role)}-(\d+)(?:-[a-z0-9]{{5}})?$", name)
    if not role or (role == WORKER and not number):
        return name
    return f"{role}-{number[1]}" if number else role


def _place(pod: kube.Pod) -> tuple[int, int, str]:
    role = role_of(pod)
    return (ROLES.index(role) if role in ROLES else len(ROLES)), len(pod.metadata.name), pod.metadata.name


def _born(pod: kube.Pod) -> tuple[bool, str]:
    return pod.status.phase == "Running", pod.metadata.creation_timestamp or ""
