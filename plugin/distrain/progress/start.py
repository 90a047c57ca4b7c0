"""Find out from a job's resources, pods and events whether its pods are running, or what they are waiting for.

These are pure functions of objects that `apiserver/cluster.py` has read. `wait.py` decides how long the plugin waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from distrain import kube
from distrain.workload.documents import HOOK
from distrain.workload.kinds import KINDS
from distrain.workload.manifest import KEYGEN, MASTER, ROLE_LABEL, WORKER, Job, PodRole

# The logs and termination messages of these roles say most about a job.
LAUNCHER = "launcher"
SPEAKERS = (LAUNCHER, "chief", "master")
# The progress line shows at most LONGEST characters of an event: kubelet's message about an image is a long chain of
# errors.
LONGEST = 120


class Log(Struct, frozen=True):
    """The last lines of a pod's log; `text` is None if the user has no permission to read logs.

    The flags in `kubectl_flags` make kubectl use the pod's namespace. The text before the position `begin` is older
    than the run's last step.
    """

    pod: kube.Pod
    text: str | None
    kubectl_flags: str = ""
    begin: int = 0


class JobState(Struct, frozen=True):
    """The job's resources, pods, events and logs at one moment. The first one of `states` is the job's main resource.

    `leaving` are pods that Kubernetes is deleting.
    """

    states: Sequence[kube.Workload]
    pods: Sequence[kube.Pod]
    events: Sequence[kube.Event]
    logs: Sequence[Log] = ()
    leaving: Sequence[kube.Pod] = ()


def has_started(found: JobState, job: Job) -> bool:
    """Tell whether the job has started: all pods run, in each role whose pods exist for as long as the job.

    A job that has already succeeded counts as started, too.
    """
    return has_succeeded(found) or all(running(found.pods, role) >= role.replicas for role in lasting(job))


def has_succeeded(found: JobState) -> bool:
    return any(condition(found.states[0], kind.ends.succeeded) for kind in KINDS)


def progress(found: JobState, job: Job) -> str:
    """Return one line with the number of running pods, and the reason why the first waiting pod is waiting."""
    line = ", ".join(_how_many(found.pods, roles, job.main) for roles in counted_together(job))
    if not found.pods:
        return f"{line}; no pod yet{last_warning(found)}"
    waiting = next((words for pod in found.pods if not runs(pod) for words in waits_for(pod, found.events)), "")
    return f"{line}; {waiting}" if waiting else line


def lasting(job: Job) -> list[PodRole]:
    """Return the roles whose pods exist for as long as the job runs."""
    return [role for role in job.roles if role.name != KEYGEN]


def counted_together(job: Job) -> list[list[PodRole]]:
    """Return the lasting roles in groups that messages count together: workers and Master, then each other role.

    The value workers.replicas includes the Master, too.
    """
    roles = [*reversed(lasting(job))]
    ranks = [role for role in roles if role.name in (WORKER, MASTER)]
    return [*([ranks] if ranks else []), *([role] for role in roles if role not in ranks)]


def pods_of(roles: Sequence[PodRole]) -> str:
    """Return the number of pods of a group in words. A Master counts as a worker."""
    named = replace(roles[0], name=WORKER) if roles[0].name == MASTER else roles[0]
    return named.pods(sum(role.replicas for role in roles))


def lacks_pods(pods: Iterable[kube.Pod], job: Job) -> bool:
    """Tell whether a role has fewer pods than the job wants."""
    present = [role_of(pod) for pod in pods]
    return any(present.count(role.component) < role.replicas for role in lasting(job))


def unreplaced(pods: Sequence[kube.Pod], job: Job) -> list[kube.Pod]:
    """Return the pods except failed pods that have been replaced.

    They have been replaced if their role has as many running pods as the job wants.
    """
    complete = {role.component for role in lasting(job) if running(pods, role) >= role.replicas}
    return [pod for pod in pods if pod.status.phase != "Failed" or role_of(pod) not in complete]


def unschedulable(found: JobState) -> str | None:
    """Return the scheduler's message about the first pod that it cannot place, or None."""
    return next((words for pod in found.pods for words in unplaced(pod)), None)


def own_pods(states: Sequence[kube.Workload], pods: Iterable[kube.Pod]) -> list[kube.Pod]:
    """Leave out pods of Helm hooks, pods of an earlier release, and pods that Kubernetes is deleting."""
    return [pod for pod in _pods_since(states, pods) if pod.metadata.deletion_timestamp is None]


def leaving_pods(states: Sequence[kube.Workload], pods: Iterable[kube.Pod]) -> list[kube.Pod]:
    """Return those pods of the job that Kubernetes is deleting."""
    return [pod for pod in _pods_since(states, pods) if pod.metadata.deletion_timestamp is not None]


def _pods_since(states: Sequence[kube.Workload], pods: Iterable[kube.Pod]) -> Iterator[kube.Pod]:
    born = min(state.metadata.creation_timestamp or "" for state in states)
    for pod in pods:
        if (pod.metadata.creation_timestamp or "") >= born and HOOK not in (pod.metadata.annotations or {}):
            yield pod


def role_of(pod: kube.Pod) -> str:
    """Return the pod's role, or an empty string if the pod lacks the chart's label."""
    return (pod.metadata.labels or {}).get(ROLE_LABEL, "")


def main_container(pod: kube.Pod) -> str:
    """Return the name of the container that runs the program, which is the first one."""
    return next((container.name for container in pod.spec.containers or ()), "")


def unplaced(pod: kube.Pod) -> Iterator[str]:
    for condition in not_scheduled(pod):
        yield f"{pod.metadata.name}: {one_line(condition.message)}"


def not_scheduled(pod: kube.Pod) -> list[kube.Condition]:
    """Return those conditions of the scheduler that say why the pod has no node."""
    told = pod.status.conditions or ()
    return [each for each in told if each.type == "PodScheduled" and each.status == "False"]


def is_unseen(pod: kube.Pod) -> bool:
    """Tell whether the scheduler has not handled the pod yet; perhaps no scheduler is running."""
    is_seen = pod.spec.node_name or pod.status.conditions or pod.status.container_statuses
    return pod.status.phase == "Pending" and not is_seen


def waits_for(pod: kube.Pod, events: Sequence[kube.Event]) -> Iterator[str]:
    name = pod.metadata.name
    yield from unplaced(pod)
    for event in reversed(list(events_of(pod.metadata.uid, events))):
        # FailedScheduling events still exist after the pod has been placed.
        if event.reason != "FailedScheduling":
            yield f"{name}: {shortened(one_line(event.message))}"
    for status in statuses(pod):
        if status.state and status.state.waiting:
            yield f"{name}: {status.state.waiting.reason}"


def shortened(words: str) -> str:
    """Cut a text from a pod, such as a log line with a whole command, to a length that fits into a message."""
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}..."


def last_warning(found: JobState) -> str:
    uids = [state.metadata.uid for state in found.states]
    words = [one_line(event.message) for uid in uids for event in events_of(uid, found.events)]
    return f": {words[-1]}" if words else ""


def _how_many(pods: Sequence[kube.Pod], roles: Sequence[PodRole], main: PodRole) -> str:
    number, role = sum(running(pods, each) for each in roles), roles[0]
    if role.replicas == 1 and role is not main:
        return f"{role.name} {'running' if number else 'waiting'}"
    more = number - sum(each.replicas for each in roles)
    words = f"{number - max(more, 0)} of {pods_of(roles)} running"
    return f"{words} ({more} more to end)" if more > 0 else words


def running(pods: Iterable[kube.Pod], role: PodRole) -> int:
    """Return how many pods of a role are running, or have ended with success."""
    return sum(1 for pod in pods if role_of(pod) == role.component and runs(pod))


def runs(pod: kube.Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    statuses = pod.status.container_statuses or []
    running = [bool(status.state and status.state.running) for status in statuses]
    return pod.status.phase == "Running" and bool(running) and all(running)


def has_finished(pod: kube.Pod) -> bool:
    """Tell whether all containers of the pod have ended with success."""
    ended = [status.state and status.state.terminated for status in pod.status.container_statuses or ()]
    return bool(ended) and all(each and each.exit_code == 0 for each in ended)


def statuses(pod: kube.Pod) -> list[kube.ContainerStatus]:
    return [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]


def condition(state: kube.Workload, kind: str) -> kube.Condition | None:
    return next((c for c in state.status.conditions or () if c.type == kind and c.status == "True"), None)


def events_of(uid: str, events: Iterable[kube.Event]) -> Iterator[kube.Event]:
    return (event for event in events if event.involved_object.uid == uid)


def one_line(words: str | None) -> str:
    return " ".join((words or "").split())
