"""Read how the containers of pods have ended, and describe it in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from distrain import kube
from distrain.progress import causes
from distrain.progress.ends import section_of
from distrain.progress.start import SPEAKERS, one_line, role_of, statuses
from distrain.workload.kinds import FACTS
from distrain.workload.manifest import WORKER

OUT_OF_MEMORY = "OOMKilled"
OWN_LINE = "distrain: "
# A progress bar ends its lines with \r.
LINE_END = re.compile(r"[\r\n]")
# The end of the worker script's message after sshd has ended, and a message that sshd logs before it ends.
SSHD_ENDED = "its last lines say why"
PORT_IN_USE = re.compile(r"^Bind to port (?P<port>\d+) on \S+ failed: Address already in use", re.MULTILINE)


def speakers_first(pods: Iterable[kube.Pod]) -> list[kube.Pod]:
    return sorted(pods, key=lambda pod: role_of(pod) not in SPEAKERS)


def ends(pod: kube.Pod) -> Iterator[tuple[kube.ContainerStatus, kube.Terminated]]:
    """Yield each exit of the pod's containers, with the status of the container.

    A container may have a current exit and an exit before its last restart.
    """
    for status in statuses(pod):
        for end in ends_of(status):
            yield status, end


def ends_of(status: kube.ContainerStatus) -> Iterator[kube.Terminated]:
    """Yield the exits of a container: the current exit if it is not running, and the exit before its last restart."""
    for state in (status.state, status.last_state):
        if state and state.terminated:
            yield state.terminated


def own_lines(end: kube.Terminated) -> list[str]:
    """Return the lines that the chart's scripts or the trainer wrote into the termination message."""
    own = [line.removeprefix(OWN_LINE) for line in lines(end) if line.startswith(OWN_LINE)]
    if (used := PORT_IN_USE.search(end.message or "")) and any(line.endswith(SSHD_ENDED) for line in own):
        return [f"ssh.port: port {used['port']} is in use on the node; choose another ssh.port"]
    return own


def lines(end: kube.Terminated) -> list[str]:
    return [line.strip() for line in LINE_END.split(end.message or "") if line.strip()]


def out_of_memory(pod: kube.Pod, status: kube.ContainerStatus) -> str:
    section = section_of(pod)
    smaller = ", or lower trainer.batchSize" if section == FACTS.roles[WORKER] else ""
    return (
        f"{section}.memory: out of memory: container {status.name} of {pod.metadata.name} was killed at its limit; "
        f"raise {section}.memory{smaller}"
    )


def cannot_run(pod: kube.Pod, status: kube.ContainerStatus, message: str | None) -> str | None:
    """Return why the image cannot start the container's program, or None if the message is about something else."""
    why = causes.of_start(one_line(message))
    value = "image.repository" if is_first(pod, status) else f"{pod.metadata.name}: container {status.name}"
    return f"{value}: the image {image_of(pod, status)} {why}" if why else None


def image_of(pod: kube.Pod, status: kube.ContainerStatus) -> str:
    """Return the image in the pod's spec, because the status has another name of this image or none."""
    containers = [*(pod.spec.init_containers or ()), *(pod.spec.containers or ())]
    return next((c.image for c in containers if c.name == status.name and c.image), None) or status.image


def is_first(pod: kube.Pod, status: kube.ContainerStatus) -> bool:
    """Tell whether the chart's value `image` sets the image of this container."""
    return status.name == next((container.name for container in pod.spec.containers or ()), status.name)
