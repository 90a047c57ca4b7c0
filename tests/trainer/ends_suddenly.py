"""Run as a TFJob's processes: the one that ENDS_SUDDENLY names ends when the training has begun, without a word."""

from __future__ import annotations

import os
import sys
import threading

from distrain_trainer import __main__, tensorflow_cluster
from distrain_trainer.errors import task_from_environment

SECONDS_OF_TRAINING = 3

connect = tensorflow_cluster.Member.connect


def connect_and_end(member: tensorflow_cluster.Member) -> None:
    connect(member)
    if os.environ["ENDS_SUDDENLY"] == " ".join(map(str, task_from_environment())):
        threading.Timer(SECONDS_OF_TRAINING, os._exit, [9]).start()


setattr(tensorflow_cluster.Member, "connect", connect_and_end)  # noqa: B010
__main__.main(sys.argv[1:])
