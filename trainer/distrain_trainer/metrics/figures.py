"""Store the figures that one rank has measured, as plain numbers. Recording a step takes a few microseconds."""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass, field

# Upper limits of the histogram buckets for step times, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0)


@dataclass
class Figures:
    """The figures of one rank since the start of its process, and the figures of the whole run.

    The training thread changes the figures while a thread of the metrics server reads them. `of_run` is empty on all
    ranks except rank 0. A figure that is not known yet has no entry.
    """

    rank: int = 0
    # The labels of distrain_run_info.
    info: dict[str, str] = field(default_factory=dict)
    # The figures, keyed by the names of the metrics in families.py.
    of_run: dict[str, float] = field(default_factory=dict)
    of_rank: dict[str, float] = field(default_factory=dict)
    # The number of steps in each bucket of the histogram. Each step is counted only in the smallest bucket whose limit
    # it does not exceed. The last bucket has no upper limit.
    steps_per_bucket: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def set(self, **figures: float | None) -> None:
        """Called by rank 0: set figures of the run. A figure that is given as None stays unchanged."""
        self.of_run.update({name: figure for name, figure in figures.items() if figure is not None})

    def begin_steps(self) -> None:
        """Set this rank's counters to 0: Prometheus does not count the first value of a counter as an increase."""
        self.of_rank.update(step_seconds=0.0, trained_samples=0.0)

    def made_step(
        self, *, samples: int, seconds: float, input_wait: float | None = None, allreduce_wait: float | None = None
    ) -> None:
        """Record a step that this rank has made.

        `input_wait` is the total wait in all steps so far. `allreduce_wait` is the wait in this step alone. None means
        unknown.
        """
        self.steps_per_bucket[bisect.bisect_left(BUCKETS, seconds)] += 1
        self.of_rank["step_seconds"] += seconds
        self.of_rank["trained_samples"] += samples
        if allreduce_wait is not None:
            waited = self.of_rank.get("allreduce_wait_seconds", 0.0)
            self.of_rank["allreduce_wait_seconds"] = waited + allreduce_wait
        if input_wait is not None:
            self.of_rank["input_wait_seconds"] = input_wait

    def begin_checkpoints(self) -> None:
        """Called by rank 0: set the checkpoint counters to 0."""
        self.set(checkpoint_writes=0, checkpoint_write_seconds=0.0, checkpoint_stall_seconds=0.0)

    def saved(self, *, write_seconds: float, unix_seconds: float) -> None:
        """Called by rank 0: record that a checkpoint is complete."""
        before = self.of_run
        self.set(
            checkpoint_writes=before["checkpoint_writes"] + 1,
            checkpoint_write_seconds=before["checkpoint_write_seconds"] + write_seconds,
            checkpoint_timestamp_seconds=unix_seconds,
        )

    def to_json(self) -> bytes:
        """Return this rank's figures, to send them to another process of this pod.

        The figures of the run are not included.
        """
        told = {"rank": self.rank, "of_rank": dict(self.of_rank), "steps_per_bucket": list(self.steps_per_bucket)}
        return json.dumps(told).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Figures:
        return cls(**json.loads(content))
