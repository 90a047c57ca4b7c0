"""Follow the logs of many pods with a limited number of connections and limited memory.

If there are at most MOST pods, each has its own connection, and kubelet sends each new line at once. If there are more
pods, the threads read them one after another.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from distrain import kube
from distrain.errors import ForbiddenError, NoLogError, NotFoundError, UnreachableError
from distrain.logs.pods import has_ended
from distrain.logs.reader import Reader

MOST = 16
# The pause in seconds between two reads of a pod's log, and after an error.
PAUSE = 1.0
# At most WAITING blocks of lines wait to be printed.
WAITING = 64
# If a log cannot be read WORTH_TELLING times in a row, the plugin reports it.
WORTH_TELLING = 5


class Followed:
    """A pod whose log is followed.

    The main thread sets `pod` (None if the pod is gone). Another thread reads the log.
    """

    def __init__(self, pod: kube.Pod, reader: Reader, title: str) -> None:
        self.pod: kube.Pod | None = pod
        self.reader, self.title = reader, title
        self.is_done = False
        self.failures = 0
        self.due = 0.0

    @property
    def has_ended(self) -> bool:
        return self.pod is None or has_ended(self.pod)


Found = tuple[Followed, "list[bytes] | UnreachableError"]


class Pool:
    """Threads that read the logs of all pods that were added to the pool.

    `found` receives their lines and errors. After `close` the threads report nothing more, and end when their current
    requests have ended.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.found: queue.Queue[Found] = queue.Queue(WAITING)
        self.error: BaseException | None = None
        self._say = tell
        self._closed = threading.Event()
        self._counting = threading.Lock()
        self._all: list[Followed] = []
        self._waiting: queue.Queue[Followed] = queue.Queue()
        self._threads = 0

    @property
    def followed(self) -> list[Followed]:
        """The pods whose logs are still read."""
        return [each for each in self._all if not each.is_done]

    @property
    def size(self) -> int:
        """The number of pods that were added."""
        return len(self._all)

    @property
    def is_idle(self) -> bool:
        return not self.followed and self.found.empty()

    def add(self, followed: Followed) -> None:
        self._all.append(followed)
        self._waiting.put(followed)
        if self._threads < MOST:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _tell(self, text: str) -> None:
        if not self._closed.is_set():
            self._say(text)

    def _work(self) -> None:
        try:
            while not self._closed.is_set():
                followed = self._waiting.get()
                self._closed.wait(max(0.0, followed.due - time.monotonic()))
                self._turn(followed)
                followed.due = time.monotonic() + PAUSE
                if not followed.is_done:
                    self._waiting.put(followed)
        except BaseException as error:
            self.error = error

    def _turn(self, followed: Followed) -> None:
        """Read the new lines. If there are few pods, continue to read until the container ends."""
        # Once a container's status says that it has ended, the log has all of the container's lines.
        has_ended = followed.has_ended
        try:
            for block in followed.reader.read(has_rest=has_ended):
                self.found.put((followed, block))
            followed.failures = 0
            if not has_ended and len(self.followed) <= MOST:
                for block in followed.reader.read(follows=True):
                    self.found.put((followed, block))
            followed.is_done = has_ended
        except (NoLogError, NotFoundError):
            followed.is_done = has_ended
        except ForbiddenError as error:
            self.found.put((followed, error))
            followed.is_done = True
        except UnreachableError as error:
            # If several logs cannot be read, the reason is the same: the API server does not answer. So report it for
            # one log only. Without the lock, two threads that fail at the same time might both leave the report to the
            # other thread.
            with self._counting:
                followed.failures += 1
                others = [each.failures for each in self.followed if each is not followed]
                is_first = followed.failures == WORTH_TELLING and max(others, default=0) < WORTH_TELLING
            if is_first:
                self._tell(f"{error.messages[0]}; trying on")
