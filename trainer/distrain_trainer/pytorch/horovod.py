"""Train with PyTorch, one process per rank, the gradients averaged by Horovod.

mpirun starts the ranks. A line that exists only because the training is distributed says so: `# Distributed:`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import horovod.torch as hvd
import torch

from distrain_trainer.config import Config
from distrain_trainer.data import Batch, Dataset, evaluation_batches
from distrain_trainer.log import Log
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import pin_all_reduce
from distrain_trainer.loop.run import ProcessGroup, Run
from distrain_trainer.pytorch.state import TorchState
from distrain_trainer.pytorch.training import (
    MODEL_FILE,
    Computer,
    Statistics,
    change_weights,
    make_deterministic,
    make_optimizer,
    require_asked_gpus,
    run_steps,
    save,
    take_from_rank_0,
)
from distrain_trainer.results import write_outcome


def main(config: Config, dataset: Dataset) -> None:
    """Train, test and write the outcome; returns once every rank has come to the end."""
    require_asked_gpus()
    if config.deterministic:
        make_deterministic()
        pin_all_reduce()  # Distributed
    hvd.init()  # Distributed: joins the processes that mpirun started; each has a rank, 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: one rank speaks for all.
    computer = Computer.choose(config, log, local_rank=hvd.local_rank(), local_ranks=hvd.local_size())

    model = computer.build(config, dataset, rank=hvd.rank())
    # Distributed: averages each gradient over the ranks, once it is there. It is not the optimizer that it is made of,
    # and has a state of its own: this one's is saved, and this one takes a checkpoint's over.
    optimizer = hvd.DistributedOptimizer(make_optimizer(config, model), named_parameters=model.named_parameters())
    scaler = computer.scaler()
    # Distributed: the ranks take their checkpoints over from whoever had them, and go on from the newest.
    run = Run.begin(config, dataset, TorchState(model, optimizer, scaler), process_group(), log)

    progress = train(config, dataset, computer, model, optimizer, scaler, run)
    # Distributed: the means of batch normalizations are each rank's own, and rank 0's are saved.
    take_from_rank_0(dict(model.named_buffers()), broadcast)
    accuracy = evaluate(config, dataset, computer, model) if dataset.tests else None
    results = progress.end(config, world_size=hvd.size(), accuracy=accuracy)

    if config.output and hvd.rank() == 0:  # Distributed: the ranks' models are equal, so one writes it.
        write_outcome(config.output, results, log, model=MODEL_FILE, save=functools.partial(save, model))
    run.finish()
    hvd.barrier()  # Distributed: no rank leaves, and so tells of success, before the model is written.


def process_group() -> ProcessGroup:
    # Distributed: with names, as Horovod takes the type's where there is none, and ranks have values of other types.
    broadcast = functools.partial(hvd.broadcast_object, name="value")
    return ProcessGroup(hvd.rank(), hvd.size(), broadcast, functools.partial(hvd.allgather_object, name="values"))


def train(
    config: Config, dataset: Dataset, computer: Computer, model: Any, optimizer: Any, scaler: Any, run: Run
) -> Progress:
    """Train the model in place. Raises DivergedError when the loss is lost, StoppedError when asked to stop."""
    # Distributed: every rank starts from rank 0's weights. The optimizer has no state yet, or a checkpoint's.
    take_from_rank_0(model.state_dict(), broadcast)
    train_step = make_train_step(computer, model, optimizer, scaler)
    return run_steps(config, dataset, optimizer, train_step, run, largest=largest_of_ranks, mean=mean_of_ranks)


def broadcast(tensors: dict[str, Any]) -> None:
    hvd.broadcast_parameters(tensors, root_rank=0)  # Distributed


def make_train_step(computer: Computer, model: Any, optimizer: Any, scaler: Any) -> Callable[[Batch], Any]:
    """Return the function of one step: batch in, this rank's loss out, NaN where the step was left out."""
    statistics = Statistics(model)

    def train_step(batch: Batch) -> Any:
        optimizer.zero_grad()
        statistics.keep()
        loss = computer.loss(model, batch)
        scaler.scale(loss).backward()
        optimizer.synchronize()  # Distributed: waits for the averages, so that the scaler looks at these.
        with optimizer.skip_synchronize():  # Distributed: once is enough.
            return change_weights(optimizer, scaler, statistics, batch, loss.detach())

    return train_step


def evaluate(config: Config, dataset: Dataset, computer: Computer, model: Any) -> float:
    """Return the share of the test samples that the model gets right."""
    # Distributed: each rank tests a part.
    batches = evaluation_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size())
    right = torch.tensor(computer.count_right(model, batches), dtype=torch.float64)
    return float(hvd.allreduce(right, op=hvd.Sum, name="right")) / dataset.tests  # Distributed


def largest_of_ranks(value: int) -> Callable[[], int]:
    """Begin to look for the largest number, beside the step. Returns what waits for it."""
    begun = hvd.allreduce_async(torch.tensor(value), op=hvd.Max, name="asked")  # Distributed
    return lambda: int(hvd.synchronize(begun))


def mean_of_ranks(value: float) -> float:
    return float(hvd.allreduce(torch.tensor(value, dtype=torch.float64), name="mean"))  # Distributed
