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
from distrain_trainer.data import Batch, Dataset, count_steps, evaluation_batches, train_batches
from distrain_trainer.log import Log
from distrain_trainer.progress import Progress
from distrain_trainer.pytorch_training import MODEL_FILE, Computer, make_optimizer, run_steps, save
from distrain_trainer.results import write_outcome


def main(config: Config, dataset: Dataset) -> None:
    """Train, test and write the outcome; returns once every rank has come to the end."""
    hvd.init()  # Distributed: joins the processes that mpirun started; each has a rank, 0 to size - 1.
    log = Log(speaks=hvd.rank() == 0)  # Distributed: one rank speaks for all.
    computer = Computer.choose(config, log, local_rank=hvd.local_rank(), local_ranks=hvd.local_size())

    steps = count_steps(config, dataset, ranks=hvd.size())
    model = computer.build(config, dataset, rank=hvd.rank())

    progress = train(config, dataset, computer, model, Progress.start(config, steps, log))
    accuracy = evaluate(config, dataset, computer, model) if dataset.tests else None
    results = progress.end(config, world_size=hvd.size(), accuracy=accuracy)

    if config.output and hvd.rank() == 0:  # Distributed: the ranks' models are equal, so one writes it.
        write_outcome(config.output, results, log, model=MODEL_FILE, save=functools.partial(save, model))
    hvd.barrier()  # Distributed: no rank leaves, and so tells of success, before the model is written.


def train(config: Config, dataset: Dataset, computer: Computer, model: Any, progress: Progress) -> Progress:
    """Train the model in place. Raises DivergedError when the loss is lost."""
    optimizer = make_optimizer(config, model)
    # Distributed: averages each gradient over the ranks, once it is there.
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    # Distributed: every rank starts from rank 0's weights. The optimizer has no state yet that could differ.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    train_step = make_train_step(computer, model, optimizer)
    # Distributed: each rank has its own part of the samples.
    batches = train_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size())
    return run_steps(config, batches, optimizer, train_step, progress, ranks=hvd.size(), mean=mean_of_ranks)


def make_train_step(computer: Computer, model: Any, optimizer: Any) -> Callable[[Batch], Any]:
    """Return the function of one step: batch in, this rank's loss out."""
    scaler = computer.scaler()

    def train_step(batch: Batch) -> Any:
        optimizer.zero_grad()
        loss = computer.loss(model, batch)
        scaler.scale(loss).backward()
        optimizer.synchronize()  # Distributed: waits for the averages, so that the scaler looks at these.
        with optimizer.skip_synchronize():  # Distributed: once is enough.
            scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return train_step


def evaluate(config: Config, dataset: Dataset, computer: Computer, model: Any) -> float:
    """Return the share of the test samples that the model gets right."""
    # Distributed: each rank tests a part.
    batches = evaluation_batches(config, dataset, rank=hvd.rank(), ranks=hvd.size())
    right = torch.tensor(computer.count_right(model, batches), dtype=torch.float64)
    return float(hvd.allreduce(right, op=hvd.Sum, name="right")) / dataset.tests  # Distributed


def mean_of_ranks(value: float) -> float:
    return float(hvd.allreduce(torch.tensor(value, dtype=torch.float64), name="mean"))  # Distributed
