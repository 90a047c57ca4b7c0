"""`python3 -m distrain_trainer`: parse the arguments, load the data, and call the framework's training program.

A user's mistake ends the process with one line on stderr.
"""

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
from distrain_trainer.packages import require
from distrain_trainer.storage import Retry, open_store

# The module of the training program for each framework and strategy. PyTorch trains with DistributedDataParallel, or
# with Horovod if mpirun starts the program.
PROGRAMS = {
    "tensorflow": {"allreduce": "tensorflow.horovod", "parameter-server": "tensorflow.parameter_server"},
    "pytorch": {"allreduce": "pytorch.ddp"},
    "pytorch under mpirun": {"allreduce": "pytorch.horovod"},
    "mxnet": {"allreduce": "mxnet.horovod", "parameter-server": "mxnet.kvstore"},
}
# The module that parameter servers and the scheduler run instead of the worker's program.
SERVERS = {"mxnet.kvstore": "mxnet.server"}
PACKAGES = {"tensorflow": "tensorflow", "pytorch": "torch", "mxnet": "mxnet"}


def main(argv: Sequence[str]) -> None:
    # Imports create no garbage. With the garbage collector enabled, it took a fifth of the CPU time of importing
    # TensorFlow.
    gc.disable()
    # Do not let TensorFlow's C++ code log the CPU's features and other details.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # By default, idle OpenMP threads wait in a busy loop. On shared processors this makes the training 40 times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        config = parse(argv)
        if config.deterministic or is_users(config.model):
            # Without this setting, PyTorch warns on every rank that find_unused_parameters costs time.
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        program = program_of(config)
        require_packages(config)
        dataset = None if holds_weights_only() else read_input(config)
        require_writable_output(config)
        # Import the framework last, because this takes seconds: mistakes in the values are reported without waiting for
        # it.
        train = importlib.import_module(program).main
        # Imported objects are never freed, so the garbage collector need not examine them during the training.
        gc.freeze()
        gc.enable()
        train(config, dataset)
    except FinishedError:
        return
    except (Exception, KeyboardInterrupt) as error:
        end_rank(error)


def program_of(config: Config) -> str:
    """Return the module for the framework, strategy and task.

    Raises ArgumentError if the image lacks the framework, or if the trainer has no program for this framework, strategy
    and task.
    """
    held = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is not None]
    if config.framework not in held:
        other = f", or set framework to {' or '.join(held)} (by hand: --framework {held[0]})" if held else ""
        words = f"this image does not hold {config.framework}; set image.repository to an image that holds it{other}"
        raise ArgumentError(f"framework: {words}")
    under_mpirun = config.framework == "pytorch" and "OMPI_COMM_WORLD_SIZE" in os.environ
    programs = PROGRAMS[f"{config.framework} under mpirun" if under_mpirun else config.framework]
    if config.strategy not in programs:
        known = " or ".join(programs)
        raise ArgumentError(
            f"strategy: the trainer trains {config.framework} with {known}, not with {config.strategy}; "
            f"set strategy to {known}, or set command to run your own program"
        )
    program = programs[config.strategy]
    return f"distrain_trainer.{SERVERS.get(program, program) if holds_weights_only() else program}"


def require_packages(config: Config) -> None:
    """Raise ArgumentError if the image lacks a Python package that this run needs."""
    uris = {"data.uri": config.data, "output.uri": config.output, "checkpoint.uri": config.checkpoint}
    for value, uri in uris.items():
        if uri.startswith("s3://"):
            require("boto3", value)
    if config.metrics_port is not None:
        require("prometheus-client", "trainer.metrics")
    if config.tensorboard:
        require("tensorboardx", "trainer.tensorboard")


def read_input(config: Config) -> Dataset:
    """Load the data.

    First import a user's model, so that a mistake in its code is reported before the data is read. Reading may take
    long.
    """
    if is_users(config.model):
        find(config.model)
    return load(config)


def require_writable_output(config: Config) -> None:
    """Called by rank 0: test whether the output can be written. The test rewrites log.txt without changing its content.

    Without this test, the run would fail only at the end of the training.
    """
    if config.output and rank_from_environment() == 0:
        store = open_store(config.output, value="output.uri", retry=Retry())
        held = store.read_tagged("log.txt")
        store.write("log.txt", held[0] if held else b"")


if __name__ == "__main__":
    main(sys.argv[1:])
