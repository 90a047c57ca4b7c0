"""Keep the record of a run: a small file of events and samples of steps beside the run's output. See docs/record.md."""

from __future__ import annotations

from distrain_trainer.record.record import Record

__all__ = ["Record"]
