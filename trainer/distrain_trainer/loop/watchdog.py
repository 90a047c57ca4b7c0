"""Detect a rank that hangs. If one rank hangs, all other ranks would wait for it in a collective for ever."""

from __future__ import annotations

import contextlib
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import TypeVar

from distrain_trainer.errors import LostPeerError, end_rank
from distrain_trainer.loop.beacon import Beacon
from distrain_trainer.storage.retry import is_waited_for

T = TypeVar("T")

# A step's time limit is TIMES_THE_MEDIAN times the median time of a step, but at least LEAST_SECONDS, because slow
# reads and checkpoints make some steps longer.
LEAST_SECONDS = 30.0
TIMES_THE_MEDIAN = 10
# The median is taken over the last REMEMBERED steps.
REMEMBERED = 100
SECONDS_BETWEEN = 1.0
# The time limit for the first STEPS_THAT_COMPILE steps, and for any step that compiles or waits for input. The first
# steps always compile; a later step compiles if its input has a new shape.
LONGEST_SECONDS = 1800.0
STEPS_THAT_COMPILE = 3
# The time limit for the very first step: on a GPU for which TensorFlow's kernels were not built, compiling them takes
# half an hour or more.
FIRST_STEP_SECONDS = 3600.0
# A rank that has waited SECONDS_OF_INPUT for its input tells the other ranks about this.
SECONDS_OF_INPUT = 3.0
# Another rank counts as busy until SECONDS_HEARD after its last datagram. A busy rank sends a datagram every second,
# and some datagrams may be lost.
SECONDS_HEARD = 5.0
# Source files of the frameworks' compilers. If one of these files is on a thread's stack, the thread is compiling.
COMPILERS = (
    "torch/_dynamo/convert_frame.py",
    "torch/_inductor/compile_fx.py",
    "triton/compiler/compiler.py",
    "tensorflow/python/framework/func_graph.py",
)


class Watchdog:
    """End this process if it makes no step for much longer than steps usually take.

    The first step may take an hour. A later step may take up to half an hour while this rank or another rank waits for
    input or compiles.
    """

    def __init__(self) -> None:
        self._took: deque[float] = deque(maxlen=REMEMBERED)
        self._steps = 0
        self._last = 0.0
        self._excused = 0.0
        self._looked = 0.0
        self._waits_since = float("inf")
        self._is_paused = False
        self._stopped = threading.Event()
        self._main = threading.get_ident()
        self.beacon: Beacon | None = None
        self.waited: float | None = None
        """Seconds that this process has waited for its input so far, None if it takes none."""

    def next(self, batches: Iterator[T]) -> T:
        """Return the next batch. The time until the batch arrives counts as waiting for input."""
        self._waits_since = time.monotonic()
        begun = self._waits_since
        batch = next(batches)
        self._waits_since = float("inf")
        self.waited = (self.waited or 0.0) + time.monotonic() - begun
        return batch

    def start(self) -> None:
        """Watch from now on. Called before the first step."""
        self._last = self._excused = self._looked = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def made_step(self, seconds: float) -> None:
        """Record a step.

        `seconds` is the duration of the step. Only the first call uses `seconds`. Later calls use the time since the
        previous call instead.
        """
        now = time.monotonic()
        self._took.append(now - self._last if self._steps else seconds)
        self._last = self._excused = now
        self._steps += 1

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While the body of the `with` runs, use the same time limit as for a wait for input.

        An example is a test of the model between two steps.
        """
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            self._last = self._excused = time.monotonic()

    def stop(self) -> None:
        """Stop watching: there is no time limit for the work after the last step."""
        self._stopped.set()

    @property
    def limit(self) -> float:
        """The time limit of a step in seconds, if no rank waits for input, compiles or is paused."""
        if self._steps == 0:
            return FIRST_STEP_SECONDS
        if self._steps < STEPS_THAT_COMPILE:
            return LONGEST_SECONDS
        return max(LEAST_SECONDS, TIMES_THE_MEDIAN * statistics.median(self._took))

    def _watch(self) -> None:
        while not self._stopped.wait(SECONDS_BETWEEN):
            limit = self.exceeded(time.monotonic())
            if limit is not None and not self._stopped.is_set():
                end_rank(
                    LostPeerError(f"no step was made for {limit:.0f} s: a rank hangs, or the ranks' network fails")
                )

    def exceeded(self, now: float) -> float | None:
        """Return the time limit in seconds if the current step has exceeded it, otherwise None. Called each second."""
        if now - self._looked > 5 * SECONDS_BETWEEN:
            # This process was suspended for a while, so the time limits start again.
            self._last = self._excused = now
        self._looked = now
        if self._is_busy(now):
            self._excused = now
            if self.beacon is not None:
                self.beacon.say_busy()
        elif self.beacon is not None and now - self.beacon.last_heard < SECONDS_HEARD:
            self._excused = now
        usual = self.limit
        limits = ((self._excused, usual), (self._last, max(usual, LONGEST_SECONDS)))
        return next((limit for since, limit in limits if now - since > limit), None)

    def _is_busy(self, now: float) -> bool:
        """Return whether this rank waits for its input, compiles or is paused.

        In these three cases the rank does not hang.
        """
        waits = self._is_paused or now - self._waits_since > SECONDS_OF_INPUT or is_waited_for()
        return waits or compiles(sys._current_frames().get(self._main))


def compiles(frame: FrameType | None) -> bool:
    """Return whether a thread is compiling. `frame` is the thread's innermost stack frame."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(COMPILERS):
            return True
        frame = frame.f_back
    return False
