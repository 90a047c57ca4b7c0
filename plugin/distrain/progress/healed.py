"""Leave out faults before the run's last step: the run has overcome them, so they do not explain its current state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distrain import kube
from distrain.progress.failures import ends_of
from distrain.progress.newest import AHEAD_SECONDS
from distrain.progress.start import runs
from distrain.progress.steps import seconds_of


def healed_ends(pods: Iterable[kube.Pod], step: float) -> frozenset[str]:
    """Return the keys of failures that the run has overcome: the container runs again, and the run has made a step.

    `step` is the time of the run's last step, in seconds since 1970.
    """
    old = frozenset[str]()
    for pod in filter(runs, pods):
        states = [each.last_state for each in pod.status.container_statuses or () if each.last_state]
        ended = [seconds_of(each.terminated.finished_at) for each in states if each.terminated]
        if ended and all(each is not None and each < step for each in ended):
            old |= ends_of([pod])
    return old


def events_since(events: Sequence[kube.Event], step: float) -> list[kube.Event]:
    """Leave out events from before the run's last step.

    The time of the step comes from the clock of a node, which may be a minute ahead.
    """
    return [each for each in events if (then := _time_of(each)) is None or then >= step - AHEAD_SECONDS]


def _time_of(event: kube.Event) -> float | None:
    return seconds_of(event.last_timestamp or event.event_time)
