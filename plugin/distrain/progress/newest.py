"""Find the newest step in the logs of several pods, because after a restart another pod may report the steps.

The times in a log come from the clock of its node, which may be minutes ahead or behind. If a program resumes from a
checkpoint that is in another log, its own log is the newer one, whatever the times are. If a container seems to have
started before its pod was created, the node's clock is behind the clock of the API server.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec.structs import replace

from distrain import kube
from distrain.progress.start import Log, statuses
from distrain.progress.steps import Progress, last_line, seconds_of

# If a pod's last line is AHEAD_SECONDS in the future, the clock of the pod's node is ahead.
AHEAD_SECONDS = 60
# The times in a pod's status are whole seconds. So a node's clock that is behind by at most BEHIND_SECONDS counts as
# right.
BEHIND_SECONDS = 5
# The trainer's lines about the checkpoint that it resumes from, and about the checkpoints that it has saved.
RESUMED = re.compile(r"^resumed from (\S+): step ", re.MULTILINE)
SAVED = re.compile(r"^checkpoint: saved (\S+) at step ", re.MULTILINE)


def newest_log(logs: Sequence[Log], now: float = math.inf) -> tuple[int, Progress] | None:
    """Take the last JSON line of each log, and return the newest one with the index of its log.

    `now` is in seconds since 1970.
    """
    texts = [log.text or "" for log in logs]
    last = [
        line and later(line, seconds_behind(log.pod)) for line, log in zip(map(last_line, texts), logs, strict=True)
    ]
    return newest_line(texts, last, now)


def newest_line(
    texts: Sequence[str], lines: Sequence[Progress | None], now: float = math.inf
) -> tuple[int, Progress] | None:
    """Return the newest of these lines, and the line's index.

    Each line is the last JSON line of a log; `texts` has the texts of the logs.

    If some but not all clocks are ahead of `now`, the times are ignored, and the line with the largest step is the
    newest.
    """
    known = [(index, line) for index, line in enumerate(lines) if line]
    found = [one for one in known if not any(_follows(texts, other, one) for other in known)] or known
    ahead = [(line.unix_seconds or 0) > now + AHEAD_SECONDS for _, line in found]
    if any(ahead) and not all(ahead):
        return max(found, key=lambda each: each[1].step)
    return max(found, key=lambda each: (each[1].unix_seconds or 0, each[1].step), default=None)


def later(line: Progress, seconds: float) -> Progress:
    """Return the line with its time moved forward by `seconds`, because the clock of the pod's node is behind."""
    return replace(line, unix_seconds=line.unix_seconds + seconds) if seconds and line.unix_seconds else line


def seconds_behind(pod: kube.Pod) -> float:
    """Return by how many seconds, at least, the clock of the pod's node is behind the API server's clock.

    A container cannot start before its pod is created, so an earlier time shows that the clock is behind. Return 0 if
    no time shows this.
    """
    born = seconds_of(pod.metadata.creation_timestamp)
    states = [state for status in statuses(pod) for state in (status.state, status.last_state) if state]
    ended = [state.terminated.finished_at for state in states if state.terminated]
    started = [state.running.started_at for state in states if state.running]
    dated = [each for each in map(seconds_of, [*started, *ended]) if each is not None]
    behind = born - min(dated) if born is not None and dated else 0
    return behind if behind > BEHIND_SECONDS else 0


def _follows(texts: Sequence[str], one: tuple[int, Progress], other: tuple[int, Progress]) -> bool:
    """Tell whether the ranks of log `one` have resumed from a checkpoint that the ranks of log `other` have saved.

    Return False if the ranks of log `other` have also resumed from a checkpoint of log `one`.
    """
    return one[0] != other[0] and _resumes(texts, one, other) and not _resumes(texts, other, one)


def _resumes(texts: Sequence[str], one: tuple[int, Progress], other: tuple[int, Progress]) -> bool:
    saved = {other[1].checkpoint, *SAVED.findall(texts[other[0]])}
    return not saved.isdisjoint(RESUMED.findall(texts[one[0]]))
