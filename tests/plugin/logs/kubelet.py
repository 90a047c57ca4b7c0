"""A fake kubelet that keeps the logs of containers and serves them like the real kubelet.

The API server cuts off the fraction of a second in `sinceTime`, so a log is served from the beginning of that second. A
request with `follow` ends when its container ends. Of each container, only the logs of the last two starts are kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

from tests.plugin.fake_api import FakeApi
from tests.plugin.status.runs import BORN, NAMESPACE

BEGINNING = datetime.fromisoformat(BORN.replace("Z", "+00:00")).timestamp()
# The fake kubelet waits up to this number of seconds for new lines. No test takes so long.
LONGEST = 20.0


class Log:
    """The log that a container has written between a start and its end.

    `rest` is the last line if the line is not finished.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[float, bytes]] = []
        self.rest = b""
        self.has_ended = False


class Kubelet:
    """The logs of all pods. `logs` maps the name of a pod to a list with one log for each start of its container."""

    def __init__(self, api: FakeApi) -> None:
        self.changed = threading.Condition()
        self.logs: dict[str, list[Log]] = {}
        self.now = 0.0
        self.is_away = False
        self.readings: list[tuple[str, dict[str, str]]] = []
        self.after_lines: Callable[[], None] = lambda: None
        self.open = self.most_open = 0
        api.stream = self._answer

    def start(self, pod: str) -> None:
        with self.changed:
            self.logs.setdefault(pod, []).append(Log())
            self.changed.notify_all()

    def write(self, pod: str, *lines: str | bytes, gap: float = 0.25) -> None:
        """Write lines to the log of the running container. The lines' times are `gap` seconds apart."""
        with self.changed:
            for line in lines:
                self.now += gap
                self.logs[pod][-1].lines.append((self.now, line if isinstance(line, bytes) else line.encode()))
            self.changed.notify_all()

    def end(self, pod: str) -> None:
        with self.changed:
            self.logs[pod][-1].has_ended = True
            self.changed.notify_all()

    def restart(self, pod: str) -> None:
        self.end(pod)
        self.start(pod)

    def remove(self, pod: str) -> None:
        self.end(pod)
        with self.changed:
            del self.logs[pod]

    def cut(self) -> None:
        """Break all open connections and refuse new connections."""
        with self.changed:
            self.is_away = True
            self.changed.notify_all()

    def mend(self) -> None:
        self.is_away, self.after_lines = False, lambda: None

    def _answer(self, path: str, query: dict[str, list[str]]) -> Iterator[bytes] | int | None:
        folder, _, rest = path.partition(f"{NAMESPACE}/pods/")
        pod = rest.removesuffix("/log")
        if folder or not rest.endswith("/log") or pod not in self.logs:
            return None
        asked = {key: values[0] for key, values in query.items()}
        logs = self.logs[pod]
        self.readings.append((pod, asked))
        if self.is_away:
            raise ConnectionError
        is_previous = asked.get("previous") == "true"
        if len(logs) <= is_previous:
            return 400
        return self._sent(logs[-2 if is_previous else -1], asked)

    def _sent(self, log: Log, asked: dict[str, str]) -> Iterator[bytes]:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            yield from self._parts(log, asked)
        finally:
            self.open -= 1

    def _parts(self, log: Log, asked: dict[str, str]) -> Iterator[bytes]:
        with self.changed:
            sent = len(log.lines)
            lines = [(at, line) for at, line in log.lines if at >= self._since(asked)]
        if tail := asked.get("tailLines"):
            lines = lines[-int(tail) :]
        yield self._text(lines, asked)
        self.after_lines()
        while asked.get("follow") == "true" and not log.has_ended:
            with self.changed:
                assert self.changed.wait_for(partial(self._has_news, log, sent), LONGEST)
                lines, sent = log.lines[sent:], len(log.lines)
            if self.is_away:
                raise ConnectionError
            yield self._text(lines, asked)
        if log.rest:
            yield self._text([(self.now, log.rest)], asked).removesuffix(b"\n")

    def _text(self, lines: list[tuple[float, bytes]], asked: dict[str, str]) -> bytes:
        has_times = asked.get("timestamps") == "true"
        return b"".join(_stamp(at) * has_times + line + b"\n" for at, line in lines)

    def _has_news(self, log: Log, sent: int) -> bool:
        return len(log.lines) > sent or log.has_ended or self.is_away

    def _since(self, asked: dict[str, str]) -> float:
        if "sinceTime" in asked:
            return datetime.fromisoformat(asked["sinceTime"].replace("Z", "+00:00")).timestamp() - BEGINNING
        return self.now - float(asked["sinceSeconds"]) if "sinceSeconds" in asked else -1.0


def _stamp(at: float) -> bytes:
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(BEGINNING + int(at)))
    return f"{second}.{round(at % 1 * 1e9):09d}Z ".encode()
