"""Keep the record of a run: a small file next to the run's output that contains events and some of the steps.

See docs/record.md.

If requested, also write event files for TensorBoard. See docs/tensorboard.md.
"""

from __future__ import annotations

from distrain_trainer.record.event_files import EventFiles
from distrain_trainer.record.record import Record

__all__ = ["EventFiles", "Record"]
