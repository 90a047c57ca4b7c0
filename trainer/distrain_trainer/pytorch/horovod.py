"""Train with PyTorch, one process per rank. Horovod averages the gradients.

mpirun starts the ranks. Each line that exists only because the training is distributed is marked `# Distributed:`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import horovod.torch as hvd
import torch

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, evaluation_batches
from distrain_trainer.log import Log
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce
from distrain_trainer.loop.run import Run
from distrain_trainer.pytorch.state import TorchState
from distrain_trainer.pytorch.training import (
    Computer,
    OfRanks,
    make_deterministic,
    make_optimizer,
    require_asked_gpus,
    run_steps,
    save,
    take_from_rank_0,
)


def main(config: Config, dataset: Dataset) -> None:
    """Train, test and write the outcome. Return after every rank has finished."""
    require_asked_gpus(config)
    if config.deterministic:
        make_deterministic()
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: joins the processes that mpirun started; each has a rank, 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: only rank 0 logs.
    computer = Computer.choose(config, log, local_rank=hvd.local_rank(), local_ranks=hvd.local_size())

    model = computer.build(config, dataset, rank=hvd.rank())
    # Distributed: DistributedOptimizer averages each gradient over the ranks as soon as it is computed. It has its own
    # state, apart from the optimizer that it is made from. Checkpoints save and load the state of DistributedOptimizer.
    optimizer = hvd.DistributedOptimizer(make_optimizer(config, model), named_parameters=model.named_parameters())
    scaler = computer.scaler()
    # Distributed: rank 0 acquires the run's checkpoints, and all ranks resume from the newest one.
    run = Run.begin(config, dataset, TorchState(model, optimizer, scaler), ProcessGroup.of_horovod(hvd), log)

    progress = train(dataset, computer, model, optimizer, scaler, run)
    run.save_end()
    # Distributed: each rank has its own batch normalization statistics. Test with rank 0's, which are saved.
    take_from_rank_0(dict(model.named_buffers()), broadcast)
    accuracy = evaluate(config, dataset, computer, model) if dataset.tests else None
    run.heed_stop()  # Distributed: all ranks stop if any was asked to.
    progress.finish(accuracy, model="model.pt", save=functools.partial(save, model))
    hvd.barrier()  # Distributed: wait, so that no rank exits with success before rank 0 has written the model.


def train(dataset: Dataset, computer: Computer, model: Any, optimizer: Any, scaler: Any, run: Run) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    # Distributed: start every rank from rank 0's weights. The optimizer's state is empty, or loaded on every rank.
    take_from_rank_0({**model.state_dict(), **dict(model.named_buffers())}, broadcast)
    of_ranks = OfRanks(hvd.size(), sum_beside, averages_in_backward=False, averaged=averaged)
    return run_steps(dataset, computer, model, optimizer, scaler, run, of_ranks)


@contextlib.contextmanager
def averaged(optimizer: Any) -> Iterator[None]:
    """Wait for the averages of the gradients, and make the optimizer's step in the body of the `with`."""
    optimizer.synchronize()  # Distributed: the scaler checks the averages for infinities.
    with optimizer.skip_synchronize():  # Distributed: the averages are there already.
        yield


def broadcast(tensors: dict[str, Any]) -> None:
    hvd.broadcast_parameters(tensors, root_rank=0)  # Distributed


def evaluate(config: Config, dataset: Dataset, computer: Computer, model: Any) -> float:
    """Return the model's accuracy on the test samples, between 0 and 1."""
    # Distributed: each rank tests on its own part of the samples.
    batches = evaluation_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size())
    right = torch.tensor(computer.count_right(model, batches), dtype=torch.float64)
    return float(hvd.allreduce(right, op=hvd.Sum, name="right")) / dataset.tests  # Distributed


def sum_beside(numbers: Any) -> Callable[[], Any]:
    """Start to add up the ranks' tensors beside the step. Return the function that gives the sum."""
    begun = hvd.allreduce_async(numbers, op=hvd.Sum, name="told")  # Distributed
    return lambda: hvd.synchronize(begun)
