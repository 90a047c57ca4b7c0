"""Replaces the program in a TFJob's processes: one process exits during the training without saying goodbye.

The environment variable ENDS_SUDDENLY names this process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from distrain_trainer import __main__
from distrain_trainer.errors import task_from_environment
from distrain_trainer.tensorflow import processes

SECONDS_OF_TRAINING = 1
# The chief creates this file after it has connected to all processes. A server cannot find out by itself whether the
# chief has done so.
BEGUN = Path(tempfile.gettempdir()) / "begun"

connect = processes.Member.connect


def connect_and_end(member: processes.Member) -> None:
    connect(member)
    if member.cluster.task == "chief":
        BEGUN.touch()
    if os.environ["ENDS_SUDDENLY"] == " ".join(map(str, task_from_environment())):
        threading.Thread(target=end, daemon=True).start()


def end() -> None:
    while not BEGUN.exists():
        time.sleep(0.1)
    time.sleep(SECONDS_OF_TRAINING)
    os._exit(9)


setattr(processes.Member, "connect", connect_and_end)  # noqa: B010
__main__.main(sys.argv[1:])
