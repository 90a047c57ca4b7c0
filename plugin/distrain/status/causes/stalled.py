"""Detect that a run makes no steps although all its pods are running, and find what its ranks are waiting for.

How long a step may take depends on the run: see `limit_of`, and for users docs/plugin.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from distrain import kube
from distrain.progress.causes import Cause
from distrain.progress.newest import seconds_behind
from distrain.progress.start import shortened, statuses
from distrain.progress.steps import PROGRESS, Progress, after_last_step, duration, seconds_of
from distrain.status.facts import is_ready
from distrain.status.figures import TimedLog, freshness, last_time
from distrain.workload.manifest import WORKER

# A pause of less than LEAST seconds without a step line is a stall only if a rank logs that it waits for the others.
LEAST = 300
# A run counts as stalled if no step line comes for INTERVALS times the usual pause between two step lines, and for
# PAUSES times the longest pause so far.
INTERVALS, PAUSES = 5, 2
# At some times a run may write no step line for LONGEST seconds: at the first steps, because they compile, at an
# evaluation or a checkpoint, and after the last step.
LONGEST = 1800
# Some ranks compile more slowly than others. So before the first step, a rank may wait for the others for LATE_START
# seconds.
LATE_START = 600
# The first LINES_THAT_COMPILE step lines after a start may come late, because their steps compile. They do not show the
# usual pause between two steps.
LINES_THAT_COMPILE = 3
# The first line after a start, which the trainer or one of the chart's scripts writes.
START = re.compile(r"^(?:resumed from |Step\tImg/sec|distrain-(?:launch|torchrun|run): )", re.MULTILINE)
# A program that logs one of these words may be doing something other than training steps.
BUSY = re.compile(
    r"\b(?:sav|writ|checkpoint|evaluat|validat|test|upload|compil|autotun)ing\b|\b(?:evaluation|validation|compilation)\b",
    re.IGNORECASE,
)
# The ranks' libraries log these messages while ranks wait for others: c10d's ProcessGroupNCCL.cpp, Horovod's
# stall_inspector.cc, and Gloo's unbound_buffer.cc.
HELD = (
    (
        r"\[Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: WorkNCCL\([^)]*?OpType=(?P<what>\w+)",
        "rank {rank} waits for the others in {what}, says NCCL's watchdog",
    ),
    (
        r"[Mm]issing ranks:\s+(?:\[[^\]]*\](?:<std\w+>)?: ?)?(?P<rank>\d+)",
        "the others wait for rank {rank}, says Horovod",
    ),
    (
        r"tensors were submitted to be reduced, gathered or broadcasted by subset of ranks",
        "some ranks wait for the others, says Horovod",
    ),
    (r"Timed out waiting (?P<time>\d+ ?ms) for \w+ operation to complete", "a rank has waited {time} for another one"),
    (r"watchdog (?:thread )?(?:got|is) stuck|Heartbeat monitor timed out", "a rank hangs, says NCCL's watchdog"),
)  # fmt: skip
# What the launcher finds when it checks a worker (charts/distrain/files/distrain_workers.py), each with what the user
# should do.
UNANSWERED = (
    (r"\(no address yet\)", "wait: a pod's name gets its address when the pod is ready; if this lasts, check the DNS"),
    (r"\(the name server does not answer\)", "check the cluster's DNS: kubectl get pods -A -l k8s-app=kube-dns"),
    (r"\(connection refused\)", "wait until sshd runs there; if this lasts, read the log of the worker"),
    (r"\(no answer\)", "a NetworkPolicy or a service mesh may drop the packets: allow ssh.port between the run's pods"),
    (r"\(what answers is not sshd\)", "something else has this port in the worker: choose another ssh.port"),
    (r"\(sshd says nothing\)", "wait: the worker's node is busy, or a service mesh holds the connection"),
)


class Ranks(Struct, frozen=True):
    """The pods of a run and their logs. The first log contains the newest step, if any log contains one.

    `logs` are the logs of the `speakers`: the launcher, or the first workers. `tails` are the last log lines of other
    pods. `slots` is the number of ranks per worker, if the ranks are numbered worker by worker, as mpirun does.
    """

    pods: Sequence[kube.Pod]
    speakers: Sequence[kube.Pod]
    logs: Sequence[TimedLog]
    tails: Sequence[tuple[kube.Pod, TimedLog]] = ()
    slots: int | None = None

    @property
    def first(self) -> TimedLog:
        return self.logs[0] if self.logs else TimedLog()

    @property
    def read(self) -> list[tuple[kube.Pod, TimedLog]]:
        return [*zip(self.speakers, self.logs, strict=True), *self.tails]


def silence_of(ranks: Ranks, now: float) -> float | None:
    """If the run is stalled, return the seconds since its last step, or since its pods started.

    Otherwise return None.
    """
    log = ranks.first
    since = _started(ranks) if log.last is None else last_time(log)
    if since is None:
        return None
    is_held = any(_held(ranks, *each, since) for each in ranks.read)
    patience = _limit_of_held(log) if is_held else None
    patience = limit_of(log, since, now) if patience is None else patience
    return now - since if now - since > patience else None


def cause_of(ranks: Ranks, now: float, logs: str) -> Cause | None:
    """Return why the run makes no steps, or None if the run is not stalled.

    `logs` is the command that prints the last log lines of the ranks.
    """
    seconds = silence_of(ranks, now)
    if seconds is None:
        return None
    usual = _usual(ranks.first) if ranks.first.last else " since its pods run"
    why = f"no step for {duration(round(seconds))}{usual}: {_who(ranks, now - seconds, now)}"
    return Cause(why, f"read {logs}; if no line says why, `py-spy dump --pid PID` in a pod shows where its rank waits")


def limit_of(log: TimedLog, since: float, now: float) -> float:
    """Return the limit: a run is stalled if it logs no step line for so many seconds."""
    if log.last is None:
        return LONGEST
    pauses = [seconds for pair in pairwise(log.steps) if (seconds := _seconds(*pair)) is not None]
    usual = max(LEAST, INTERVALS * _median(pauses), PAUSES * max(pauses)) if pauses else LEAST
    logs_on = any(each is not None and each > since and now - each < usual for each in log.times[-2:])
    return max(usual, LONGEST) if logs_on or _is_busy(log, log.last) else usual


def _limit_of_held(log: TimedLog) -> float | None:
    """Return after how many seconds without a step a run is stalled, if one rank waits for the others.

    Return None if waiting may be normal, because a rank compiles, saves or evaluates.
    """
    if log.last is None:
        return LATE_START
    return None if _is_busy(log, log.last) else freshness(log)


def _is_busy(log: TimedLog, last: Progress) -> bool:
    """Tell whether the ranks may be busy with something other than steps, or with a step that compiles."""
    start = max((each.start() for each in START.finditer(log.text)), default=0)
    is_new = len(PROGRESS.findall(log.text, start)) < LINES_THAT_COMPILE
    is_last = last.steps is not None and last.step >= last.steps
    return is_new or is_last or bool(BUSY.search(after_last_step(log.text))) or _evaluates(log.steps)


def _evaluates(steps: Sequence[Progress]) -> bool:
    """Tell whether the next step line would be the first one after the end of an epoch.

    If the log contains the end of an earlier epoch, return False, because the limit already allows for such a pause.
    """
    epochs = [each.epoch for each in steps if each.epoch is not None]
    if len(epochs) < 2:
        return False
    expected = [*epochs, 2 * epochs[-1] - epochs[-2]]
    ends = [int(other) > int(one) for one, other in pairwise(expected)]
    return ends[-1] and not any(ends[:-1])


def _seconds(one: Progress, other: Progress) -> float | None:
    """Return the seconds between two step lines.

    Return None if they are unknown or the lines belong to different starts.
    """
    if one.unix_seconds is None or other.unix_seconds is None or other.step <= one.step:
        return None
    return max(0.0, other.unix_seconds - one.unix_seconds)


def _usual(log: TimedLog) -> str:
    pairs = [
        (seconds, other.step - one.step) for one, other in pairwise(log.steps) if (seconds := _seconds(one, other))
    ]
    if not pairs:
        return ""
    took = _median([seconds / steps for seconds, steps in pairs])
    return f" (a step took {f'{took:.2g} s' if took < 10 else duration(round(took))})"


def _median(numbers: Sequence[float]) -> float:
    """Return the median.

    If the number of values is even, return the larger one of the two in the middle. Importing `statistics` takes long.
    """
    return sorted(numbers)[len(numbers) // 2]


def _started(ranks: Ranks) -> float | None:
    """Return when the run last started: the newest start of a container, or of the program in a container."""
    told = [last_time(log, START) for log in ranks.logs]
    born = [_born(pod) for pod in ranks.pods]
    return max((each for each in (*told, *born) if each is not None), default=None)


def _born(pod: kube.Pod) -> float | None:
    """Return the time at which the last of the pod's containers started."""
    running = [each.state.running.started_at for each in statuses(pod) if each.state and each.state.running]
    known = [seconds for each in running if (seconds := seconds_of(each)) is not None]
    return max(known) + seconds_behind(pod) if known else None


def _who(ranks: Ranks, since: float, now: float) -> str:
    """Say which pod or rank the others wait for, if the pods and logs show it."""
    for pod, log in ranks.read:
        if words := _held(ranks, pod, log, since):
            return words
    for pod in ranks.pods:
        if not is_ready(pod):
            return f"{pod.metadata.name} is not ready"
    for pod in ranks.pods:
        if (born := _born(pod)) is not None and ranks.first.last and born > since:
            return f"{pod.metadata.name} has started {duration(round(now - born))} ago, after the last step"
    return _quiet(ranks.read, since, now)


def _held(ranks: Ranks, pod: kube.Pod, log: TimedLog, since: float) -> str:
    """Return what the pod's log says, since the last step, about ranks that wait for others.

    If the log says nothing, return an empty text.
    """
    text = after_last_step(log.text)
    for pattern, words in HELD:
        for found in reversed(list(re.finditer(pattern, text))):
            then = log.time_at(len(log.text) - len(text) + found.start())
            if then is None or then >= since:
                told = found.groupdict()
                return f"{pod.metadata.name}: {words.format(**told)}{_place_of(ranks, told.get('rank'))}"
    return ""


def _place_of(ranks: Ranks, rank: str | None) -> str:
    """Return the worker on which a rank runs, or an empty text if the number of the rank does not show it."""
    if not rank or not ranks.slots:
        return ""
    end = f"-{WORKER}-{int(rank) // ranks.slots}"
    found = next((pod.metadata.name for pod in ranks.pods if pod.metadata.name.endswith(end)), "")
    return f" ({found} has rank {rank})" if found else ""


def _quiet(read: Sequence[tuple[kube.Pod, TimedLog]], since: float, now: float) -> str:
    """Name the pods that have logged nothing since the last step, and the last line of the other pods."""
    newest = [(pod, log, max((each for each in log.times if each is not None), default=None)) for pod, log in read]
    quiet = [(pod, then) for pod, _, then in newest if then is None or then <= since + 1]
    spoke = [(then, pod, log) for pod, log, then in newest if then is not None and then > since + 1]
    if not read:
        return "no log was read"
    if not spoke:
        return f"{_first_of([pod for pod, _ in quiet])} logged nothing since"
    then, pod, log = max(spoke, key=lambda each: each[0])
    line = shortened(log.text.rstrip().rpartition("\n")[2])
    words = f"{pod.metadata.name} logged {duration(round(max(0, now - then)))} ago: {line}"
    if not quiet:
        return words
    return f"{_first_of([pod for pod, _ in quiet])} logged nothing since; {words}"


def _first_of(pods: Sequence[kube.Pod]) -> str:
    more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
    return f"{pods[0].metadata.name}{more}"


def next_step(waits: str) -> str:
    """Return what the user should do about what the launcher waits for. Return an empty text if this is unknown."""
    return next((then for fragment, then in UNANSWERED if re.search(fragment, waits)), "")
