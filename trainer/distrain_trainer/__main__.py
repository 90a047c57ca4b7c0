"""`python3 -m distrain_trainer`: arguments in, the framework's program run; mistakes told in a line."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

from distrain_trainer.config import Config, parse
from distrain_trainer.data import Dataset, load
from distrain_trainer.errors import ArgumentError, FinishedError, end_rank, holds_weights_only, rank_from_environment
from distrain_trainer.models.user import find, is_users
from distrain_trainer.storage import Patience, open_store

# By framework and strategy. PyTorch's own all-reduce is started by torchrun, Horovod's by mpirun.
PROGRAMS = {
    "tensorflow": {"allreduce": "tensorflow.horovod", "parameter-server": "tensorflow.parameter_server"},
    "pytorch": {"allreduce": "pytorch.ddp"},
    "pytorch under mpirun": {"allreduce": "pytorch.horovod"},
    "mxnet": {"allreduce": "mxnet.horovod", "parameter-server": "mxnet.kvstore"},
}
# What the processes without a rank run in a program's place.
SERVERS = {"mxnet.kvstore": "mxnet.server"}
PACKAGES = {"tensorflow": "tensorflow", "pytorch": "torch", "mxnet": "mxnet"}


def main(argv: Sequence[str]) -> None:
    # Loading makes no garbage, and looking for it took a fifth of the processor's time to load TensorFlow.
    gc.disable()
    # TensorFlow's C++ side tells of its CPU features and more, before any line of ours.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # OpenMP's threads wait for each other by running in circles: on processors that others use too, 40 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        config = parse(argv)
        if config.deterministic:
            # PyTorch warns, on every rank, that looking for unused parameters costs time.
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        program = program_of(config)
        dataset = None if holds_weights_only() else read_input(config)
        require_writable_output(config)
        # Only now: a mistake above shows before the framework's seconds of loading.
        train = importlib.import_module(program).main
        # What is loaded stays: not to be looked through again while it trains.
        gc.freeze()
        gc.enable()
        train(config, dataset)
    except FinishedError:
        return
    except (Exception, KeyboardInterrupt) as error:
        end_rank(error)


def program_of(config: Config) -> str:
    """Return the module that trains with the framework and strategy. Raises ArgumentError when this image has none."""
    if importlib.util.find_spec(PACKAGES[config.framework]) is None:
        raise ArgumentError(
            f"framework: this image does not hold {config.framework}; set image.repository to one that does, "
            "or command to a program of your own"
        )
    under_mpirun = config.framework == "pytorch" and "OMPI_COMM_WORLD_SIZE" in os.environ
    programs = PROGRAMS[f"{config.framework} under mpirun" if under_mpirun else config.framework]
    if config.strategy not in programs:
        known = " or ".join(programs)
        raise ArgumentError(
            f"strategy: the trainer trains {config.framework} with {known}, not with {config.strategy}; "
            f"set strategy: {known}, or command to a program of your own"
        )
    program = programs[config.strategy]
    return f"distrain_trainer.{SERVERS.get(program, program) if holds_weights_only() else program}"


def read_input(config: Config) -> Dataset:
    """Return the data, after a look at a model of the user's own: a mistake in that shows before much is read."""
    if is_users(config.model):
        find(config.model)
    return load(config)


def require_writable_output(config: Config) -> None:
    """Write the log as it is so far, by rank 0: hours of training must not end before a bucket that is not there."""
    if config.output and rank_from_environment() == 0:
        store = open_store(config.output, value="output.uri", patience=Patience())
        held = store.read_tagged("log.txt")
        store.write("log.txt", held[0] if held else b"")


if __name__ == "__main__":
    main(sys.argv[1:])
