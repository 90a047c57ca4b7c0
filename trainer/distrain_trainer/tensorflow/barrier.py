"""Stop all workers before the same step, so that the parameter servers hold a consistent state.

To stop them, the chief begins a pause. Each worker reports the step that it makes next. The workers then continue until
they reach the highest step that any worker has reported, and wait there.
"""

from __future__ import annotations

from collections import deque

from distrain_trainer.tensorflow.processes import Member
from distrain_trainer.tensorflow.shared_weights import SharedWeights

# Sent instead of a sample count when the worker waits before a step.
WAITS = -1.0
REST = (0.0, 0.0, 0.0)


class ChiefBarrier:
    """The chief's side. `step` is the step before which all workers wait. `step` is None if there is no pause."""

    def __init__(self, member: Member, steps: int) -> None:
        self._member, self._steps = member, steps
        self._reports: list[deque[list[float]]] = [deque() for _ in range(member.cluster.workers)]
        self._pauses = 0
        self._ended: set[int] = set()
        self.step: int | None = None

    def next_reports(self) -> list[list[float]]:
        """Return each worker's report of its next step. Wait for the reports that have not arrived yet."""
        return [
            reports.popleft() if reports else self._member.hear(worker) for worker, reports in enumerate(self._reports)
        ]

    def call(self) -> None:
        """Make all workers wait before the same step.

        Steps that workers report in the meantime are kept, and next_reports returns them later.
        """
        self._pauses += 1
        self._member.call_pause(self._pauses)
        steps = [self._hear_until_it_waits(worker) for worker in range(len(self._reports))]
        self.step = max(steps)
        on_the_way = [worker for worker, step in enumerate(steps) if step < self._steps]
        for worker in on_the_way:
            self._member.tell(worker, f"until {self.step}")
        for worker in on_the_way:
            self._hear_until_it_waits(worker)

    def release(self) -> None:
        """End the pause: let the workers continue the training."""
        if self.step != self._steps:
            self._member.tell_workers("on")
        self.step = None

    def end(self) -> None:
        """Wait until every worker has made its last step."""
        for worker in range(len(self._reports)):
            while worker not in self._ended:
                self._hear_until_it_waits(worker)

    def _hear_until_it_waits(self, worker: int) -> int:
        while True:
            figures = self._member.hear(worker)
            if figures[0] == WAITS:
                if figures[1] == self._steps:
                    self._ended.add(worker)
                return int(figures[1])
            self._reports[worker].append(figures)


class WorkerBarrier:
    """A worker's side."""

    def __init__(self, member: Member, weights: SharedWeights) -> None:
        self._member, self._weights = member, weights
        self._pauses = 0.0
        self._until = -1

    def wait_before(self, step: int) -> None:
        """If the chief has begun a pause, wait for its end, then pull the weights again.

        Call this right after weights.pull().
        """
        pauses = float(self._weights.signs[0])
        if pauses != self._pauses:
            self._pauses = pauses
            self.report(step)
            self._until = int(self._member.wait_for("until"))
        if step == self._until:
            self.report(step)
            self._member.wait_for("on")
            self._weights.pull()

    def report(self, step: int) -> None:
        self._member.report(WAITS, step, *REST)
