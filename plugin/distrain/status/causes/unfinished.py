"""Explain what does not end: the deletion of a job or pod, an init container, or a container beside the program."""

from __future__ import annotations

from collections.abc import Sequence

from distrain import kube
from distrain.progress.causes import Cause
from distrain.progress.start import main_container
from distrain.progress.steps import duration, seconds_of
from distrain.workload.wording import listed

# Kubernetes itself sets these finalizers. They keep an object until the objects that it owns (here its pods) are gone.
WAITS_FOR_PODS = ("foregroundDeletion", "orphan")
# A pod counts as late only LATE_SECONDS after its deletion time, which already includes the grace period.
LATE_SECONDS = 60
INITIALIZING = "PodInitializing"


def of_job(job: kube.Workload, kind: str, now: float, kubectl_flags: str) -> Cause | None:
    """If the job is being deleted, say so and what delays the deletion. Return None if it is not being deleted."""
    since = seconds_of(job.metadata.deletion_timestamp)
    if since is None:
        return None
    others = [each for each in job.metadata.finalizers or () if each not in WAITS_FOR_PODS]
    why = f"the {kind} {job.metadata.name} is being deleted, since {duration(round(max(0, now - since)))}"
    if not others:
        return Cause(why, "wait: it is gone once its pods have ended")
    look = f"`kubectl {kubectl_flags} describe {kind.lower()} {job.metadata.name}`"
    return Cause(
        f"{why}; the finalizer {listed(others)} holds it", f"see {look}: what has set the finalizer removes it"
    )


def of_pods(leaving: Sequence[kube.Pod], now: float, kubectl_flags: str) -> Cause | None:
    """If the deletion of a pod is late, return this as the cause, because the pod's successor cannot be created before.

    Return None if no deletion is late.
    """
    for pod in leaving:
        due, name = seconds_of(pod.metadata.deletion_timestamp), pod.metadata.name
        if due is not None and now - due > LATE_SECONDS:
            return Cause(
                f"{name} should have ended {duration(round(now - due))} ago, and its successor waits for that",
                f"`kubectl {kubectl_flags} describe pod {name}` shows its finalizers and its node; if the node is off "
                f"for good, `kubectl {kubectl_flags} delete pod {name} --force`",
            )
    return None


def kept_by(pods: Sequence[kube.Pod], kubectl_flags: str) -> Cause | None:
    """Return the container that is still running although its pod's program has ended, or None if there is none."""
    for pod in pods:
        name, program = pod.metadata.name, main_container(pod)
        states = {each.name: each.state for each in pod.status.container_statuses or () if each.state}
        ended = states[program].terminated if program in states else None
        others = [each for each, state in states.items() if state.running]
        if ended and others and ended.exit_code == 0:
            return Cause(
                f"{name}: its program has ended well, and its container {others[0]} still runs",
                f"keep {others[0]} out of the pods (Istio, Linkerd: serviceMesh: none), or make "
                "it a native sidecar: an init container with restartPolicy: Always",
            )
        if ended and others:
            why = f"{name}: its program has ended with exit code {ended.exit_code}"
            look = f"read `kubectl {kubectl_flags} logs {name} -c {program}`"
            return Cause(f"{why}, and its container {others[0]} runs on", look)
    return None


def prepared_by(pods: Sequence[kube.Pod], kubectl_flags: str) -> Cause | None:
    """In the first pod that waits for an init container, return the one that is still running.

    Return None without one.
    """
    for pod in pods:
        waiting = [each.state.waiting for each in pod.status.container_statuses or () if each.state]
        running = [each.name for each in pod.status.init_container_statuses or () if each.state and each.state.running]
        if running and any(each and each.reason == INITIALIZING for each in waiting):
            name, container = pod.metadata.name, running[-1]
            return Cause(
                f"{name}: its init container {container} still runs",
                f"wait; `kubectl {kubectl_flags} logs -f {name} -c {container}` shows what it does",
            )
    return None
