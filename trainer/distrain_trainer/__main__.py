"""`python3 -m distrain_trainer`: arguments in, the framework's program run; mistakes told in a line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from distrain_trainer.config import Config, parse
from distrain_trainer.data import load
from distrain_trainer.errors import ArgumentError, end_rank, rank_from_environment
from distrain_trainer.storage import open_store

# By framework and strategy.
PROGRAMS = {"tensorflow": {"allreduce": "distrain_trainer.tensorflow_horovod"}}


def main(argv: Sequence[str]) -> None:
    # TensorFlow's C++ side tells of its CPU features and more, before any line of ours.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        config = parse(argv)
        program = program_of(config)
        dataset = load(config)
        require_writable_output(config)
        # Only now: a mistake above shows before the framework's seconds of loading.
        importlib.import_module(program).main(config, dataset)
    except (Exception, KeyboardInterrupt) as error:
        end_rank(error)


def program_of(config: Config) -> str:
    """Return the module that trains with the framework and strategy. Raises ArgumentError when the trainer has none."""
    if config.framework not in PROGRAMS:
        raise ArgumentError(
            f"framework: this image trains with {' and '.join(PROGRAMS)}, not with {config.framework}; "
            "set command to a program of your own, and image.repository to its image"
        )
    programs = PROGRAMS[config.framework]
    if config.strategy not in programs:
        known = " or ".join(programs)
        raise ArgumentError(
            f"strategy: this image trains {config.framework} with {known}, not with {config.strategy}; "
            f"set strategy: {known}, or command to a program of your own"
        )
    return programs[config.strategy]


def require_writable_output(config: Config) -> None:
    """Write an empty log, by rank 0: hours of training must not end before a bucket that is not there."""
    if config.output and rank_from_environment() == 0:
        open_store(config.output, value="output.uri").write("log.txt", b"")


if __name__ == "__main__":
    main(sys.argv[1:])
