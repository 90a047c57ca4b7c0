"""Read more about a run that seems to make no steps: the time by kubelet's clock, and other ranks' last log lines."""

from __future__ import annotations

import math

from distrain import kube
from distrain.apiserver.cluster import Cluster
from distrain.apiserver.pages import Ahead
from distrain.errors import UnreachableError
from distrain.progress import logs
from distrain.progress.newest import seconds_behind
from distrain.progress.start import SPEAKERS, main_container, role_of, runs
from distrain.status.causes.stalled import Ranks, limit_of, silence_of
from distrain.status.figures import TimedLog, freshness, last_time, timed

# Of each other rank's log, only the last LINES lines are read. They contain the last messages of the program, and of a
# library that waits for other ranks.
LINES = 20


def time_of(cluster: Cluster, namespace: str, ranks: Ranks, now: float) -> float:
    """Return the current time by the clock of the node whose log has the steps.

    `now` is the time by this machine's clock.

    The request asks kubelet for the step lines of the last few seconds. kubelet measures these seconds by the node's
    clock.
    """
    made = last_time(ranks.first)
    if made is None or not ranks.speakers:
        return now
    for seconds in (freshness(ranks.first), limit_of(ranks.first, made, now)):
        since = math.ceil(seconds)
        if now - made > since and timed(_text(cluster, namespace, ranks.speakers[0], logs.LINES, since)).last:
            return made + since - 1
    return now


def tails_of(cluster: Cluster, namespace: str, ranks: Ranks, now: float) -> list[tuple[kube.Pod, TimedLog]]:
    """If the run is stalled, return the last log lines of its other ranks.

    The log of a launcher already contains the lines of all ranks.
    """
    is_told = any(role_of(pod) in SPEAKERS for pod in ranks.speakers)
    if is_told or not all(map(runs, ranks.pods)) or silence_of(ranks, now) is None:
        return []
    known = {pod.metadata.uid for pod in ranks.speakers}
    others = [pod for pod in ranks.pods if pod.status.phase == "Running" and pod.metadata.uid not in known]
    asked = [(pod, Ahead(_text, cluster, namespace, pod, LINES)) for pod in others[: logs.MOST_READ]]
    return [(pod, timed(ahead.result(), seconds_behind(pod))) for pod, ahead in asked]


def _text(cluster: Cluster, namespace: str, pod: kube.Pod, lines: int, since: int = 0) -> str:
    """Return the last lines of a log, or an empty text if it cannot be read.

    If the log is missing, other evidence shows what the rank waits for.
    """
    try:
        name, container = pod.metadata.name, main_container(pod)
        return cluster.log(namespace, name, container, lines, timestamps=True, since=since)
    except UnreachableError:
        return ""
