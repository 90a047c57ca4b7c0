"""Keep the record of a run: a small file of events and samples of steps beside the run's output. See docs/record.md.

On request also keep it as event files for TensorBoard. See docs/tensorboard.md.
"""

from __future__ import annotations

from distrain_trainer.record.event_files import EventFiles
from distrain_trainer.record.record import Record

__all__ = ["EventFiles", "Record"]
