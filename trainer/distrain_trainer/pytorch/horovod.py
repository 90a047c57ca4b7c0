"""Train with PyTorch, one process per rank. Horovod averages the gradients.

mpirun starts the ranks. Lines that only distributed training needs are marked with `# Distributed:`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import horovod.torch as hvd

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, evaluation_batches
from distrain_trainer.log import Log
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce
from distrain_trainer.loop.run import Run
from distrain_trainer.pytorch.ema import Ema
from distrain_trainer.pytorch.optimizers import make_optimizer
from distrain_trainer.pytorch.state import TorchState
from distrain_trainer.pytorch.training import (
    MODEL,
    Computer,
    OfRanks,
    Setup,
    make_deterministic,
    require_asked_gpus,
    run_steps,
    take_from_rank_0,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train and test the model, and write the outcome. Returns when every rank has finished."""
    require_asked_gpus(config)
    if config.deterministic:
        make_deterministic()
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: connect the processes that mpirun started; each has a rank from 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: only rank 0 prints the log.
    computer = Computer.choose(config, log, local_rank=hvd.local_rank(), local_ranks=hvd.local_size())

    model = computer.build(config, dataset, rank=hvd.rank())
    optimizer = make_optimizer(config, model)
    if hvd.size() > 1:
        # Distributed: averages each gradient over the ranks as soon as it is computed. DistributedOptimizer keeps its
        # own state, separate from the state of the optimizer that it wraps. Checkpoints contain the state of
        # DistributedOptimizer.
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    scaler = computer.scaler()
    setup = Setup(computer, model, optimizer, scaler, Ema(config, model))
    # Distributed: rank 0 takes the lease on the run, and all ranks resume from the newest checkpoint.
    run = Run.begin(config, dataset, TorchState(model, optimizer, scaler, setup.ema), ProcessGroup.of_horovod(hvd), log)
    evaluator = Evaluator(run, dataset.tests, functools.partial(evaluate, dataset, setup, config), setup.save, MODEL)

    progress = train(dataset, setup, evaluator)
    run.save_end()
    accuracy = evaluator.at_end()
    run.heed_stop()  # Distributed: all ranks stop if one was asked to stop.
    progress.finish(accuracy, model=MODEL, save=setup.save)
    hvd.barrier()  # Distributed: no rank may exit with 0 before rank 0 has written the model, so all ranks wait here.


def train(dataset: Dataset, setup: Setup, evaluator: Evaluator) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    model = setup.model
    # Distributed: start every rank from rank 0's weights. The optimizer's state needs no broadcast: it is empty, or
    # every rank has loaded it from the checkpoint.
    take_from_rank_0({**model.state_dict(), **dict(model.named_buffers())}, broadcast)
    averages = averaged if hvd.size() > 1 else contextlib.nullcontext
    of_ranks = OfRanks(hvd.size(), sum_beside, averages_in_backward=False, averaged=averages)
    return run_steps(dataset, setup, model, evaluator, of_ranks)


@contextlib.contextmanager
def averaged(optimizer: Any) -> Iterator[None]:
    """Wait for the averages of the gradients.

    The caller makes the optimizer's step in the body of the `with`, after the averages have arrived.
    """
    optimizer.synchronize()  # Distributed: the gradient scaler needs the averages, to check them for infinities.
    with optimizer.skip_synchronize():  # Distributed: the averages are computed already.
        yield


def broadcast(tensors: dict[str, Any]) -> None:
    hvd.broadcast_parameters(tensors, root_rank=0)  # Distributed


def evaluate(dataset: Dataset, setup: Setup, config: Config) -> tuple[float, float]:
    """Test the model.

    Return how often the model's first choice is right, and how often one of its first five choices is right.
    """
    # Distributed: each rank has its own batch normalization statistics, but only rank 0's are saved. So all ranks test
    # with rank 0's statistics.
    take_from_rank_0(dict(setup.model.named_buffers()), broadcast)
    # Distributed: each rank tests on its own part of the samples.
    batches = evaluation_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size())
    with setup.ema.applied():
        right = setup.computer.count_right(setup.model, batches).cpu()
    top1, top5 = hvd.allreduce(right, op=hvd.Sum, name="right").tolist()  # Distributed
    return top1, top5


def sum_beside(numbers: Any) -> Callable[[], Any]:
    """Start to add up a tensor over the ranks while the step is computed.

    Return a function that waits for the sum and returns it.
    """
    begun = hvd.allreduce_async(numbers, op=hvd.Sum, name="told")  # Distributed
    return lambda: hvd.synchronize(begun)
