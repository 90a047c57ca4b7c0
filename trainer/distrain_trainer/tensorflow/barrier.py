"""Bring workers that do not wait for each other to one step, so that what the servers hold is the state after it.

The chief calls a pause; each worker says before which step it stands, and goes on to the furthest one's.
"""

from __future__ import annotations

from collections import deque

from distrain_trainer.tensorflow.processes import Member
from distrain_trainer.tensorflow.shared_weights import SharedWeights

# In the place of a report's samples: the worker stands before a step.
STANDS = -1.0
REST = (0.0, 0.0, 0.0)


class Meeting:
    """The chief's part. `step` is the one before which all workers stand, or will when their reports are taken."""

    def __init__(self, member: Member, steps: int) -> None:
        self._member, self._steps = member, steps
        self._reports: list[deque[list[float]]] = [deque() for _ in range(member.cluster.workers)]
        self._pauses = 0
        self._ended: set[int] = set()
        self.step: int | None = None

    def next_reports(self) -> list[list[float]]:
        """Return each worker's report of the next step."""
        return [
            reports.popleft() if reports else self._member.hear(worker) for worker, reports in enumerate(self._reports)
        ]

    def call(self) -> None:
        """Have all workers stand before one step. Their reports until there wait to be taken."""
        self._pauses += 1
        self._member.call_pause(self._pauses)
        places = [self._hear_until_it_stands(worker) for worker in range(len(self._reports))]
        self.step = max(places)
        on_the_way = [worker for worker, place in enumerate(places) if place < self._steps]
        for worker in on_the_way:
            self._member.tell(worker, f"until {self.step}")
        for worker in on_the_way:
            self._hear_until_it_stands(worker)

    def dissolve(self) -> None:
        """Let the workers go on."""
        if self.step != self._steps:
            self._member.tell_workers("on")
        self.step = None

    def end(self) -> None:
        """Wait for the end of each worker's last step."""
        for worker in range(len(self._reports)):
            while worker not in self._ended:
                self._hear_until_it_stands(worker)

    def _hear_until_it_stands(self, worker: int) -> int:
        while True:
            figures = self._member.hear(worker)
            if figures[0] == STANDS:
                if figures[1] == self._steps:
                    self._ended.add(worker)
                return int(figures[1])
            self._reports[worker].append(figures)


class Attendance:
    """A worker's part."""

    def __init__(self, member: Member, weights: SharedWeights) -> None:
        self._member, self._weights = member, weights
        self._pauses = 0.0
        self._until = -1

    def stand_before(self, step: int) -> None:
        """Wait where the chief wants it. Right after the weights were pulled, which are then pulled anew."""
        pauses = float(self._weights.signs[0])
        if pauses != self._pauses:
            self._pauses = pauses
            self.say(step)
            self._until = int(self._member.wait_for("until"))
        if step == self._until:
            self.say(step)
            self._member.wait_for("on")
            self._weights.pull()

    def say(self, step: int) -> None:
        self._member.report(STANDS, step, *REST)
