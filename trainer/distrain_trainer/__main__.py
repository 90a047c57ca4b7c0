"""`python3 -m distrain_trainer`: arguments in, the framework's program run; mistakes told in a line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from distrain_trainer.config import Config, parse
from distrain_trainer.data import load
from distrain_trainer.errors import end_rank, rank_from_environment
from distrain_trainer.storage import open_store

PROGRAMS = {"tensorflow": "distrain_trainer.tensorflow_horovod"}


def main(argv: Sequence[str]) -> None:
    # TensorFlow's C++ side tells of its CPU features and more, before any line of ours.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        config = parse(argv)
        dataset = load(config)
        require_writable_output(config)
        # Only now: a mistake above shows before the framework's seconds of loading.
        importlib.import_module(PROGRAMS[config.framework]).main(config, dataset)
    except (Exception, KeyboardInterrupt) as error:
        end_rank(error)


def require_writable_output(config: Config) -> None:
    """Write an empty log, by rank 0: hours of training must not end before a bucket that is not there."""
    if config.output and rank_from_environment() == 0:
        open_store(config.output, value="output.uri").write("log.txt", b"")


if __name__ == "__main__":
    main(sys.argv[1:])
