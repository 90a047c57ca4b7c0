"""Keep the record of a run: a small file with events and some of the steps, next to the run's output.

See docs/record.md.

On request also write event files for TensorBoard. See docs/tensorboard.md.
"""

from __future__ import annotations

from distrain_trainer.record.event_files import EventFiles
from distrain_trainer.record.record import Record

__all__ = ["EventFiles", "Record"]
