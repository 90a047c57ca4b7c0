"""Train with PyTorch, one process per rank. DistributedDataParallel averages the gradients.

torchrun or the operator starts the ranks. Lines that only distributed training needs are marked with `# Distributed:`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distrain_trainer.config import Config
from distrain_trainer.data import Dataset, evaluation_batches
from distrain_trainer.errors import SECONDS_FOR_RANK_0, ArgumentError, LostPeerError, termination_requested_within
from distrain_trainer.log import Log
from distrain_trainer.loop.evaluation import Evaluator
from distrain_trainer.loop.process_group import ProcessGroup
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.run import Run
from distrain_trainer.models.user import is_users
from distrain_trainer.pytorch.ema import Ema
from distrain_trainer.pytorch.optimizers import make_optimizer
from distrain_trainer.pytorch.state import TorchState
from distrain_trainer.pytorch.statistics import without_repeats
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

# Element types that neither gloo nor NCCL can broadcast.
UNKNOWN_TYPES = (torch.int16, torch.uint16, torch.uint32, torch.uint64)


@contextlib.contextmanager
def lost_ranks_named() -> Iterator[None]:
    """If the connection between ranks is lost, turn the framework's error into LostPeerError.

    Under torchrun, wait first: the failed rank needs time to log the cause, and torchrun may send SIGTERM.
    """
    try:
        yield
    except RuntimeError as error:
        finding = str(error).splitlines()[0]
        if not isinstance(error, dist.DistError) and "gloo" not in finding:
            raise
        # Without torchrun, end immediately: if this rank waited, its old TCPStore would stay open, and restarted ranks
        # would connect to it.
        if "TORCHELASTIC_RUN_ID" in os.environ:
            termination_requested_within(SECONDS_FOR_RANK_0)
        raise LostPeerError(
            f"the ranks have lost each other ({finding}); see the log of the rank that ended first"
        ) from None


@contextlib.contextmanager
def gradient_computed_twice_named() -> Iterator[None]:
    """If DistributedDataParallel refuses reentrant checkpointing, turn its error into ArgumentError."""
    try:
        yield
    except RuntimeError as error:
        if "mark a variable ready only once" not in str(error):
            raise
        raise ArgumentError(
            "trainer.model: a step computes a parameter's gradient twice, which DistributedDataParallel refuses; "
            "call torch.utils.checkpoint with use_reentrant=False, or use no parameter outside of forward"
        ) from None


@lost_ranks_named()  # Distributed
def main(config: Config, dataset: Dataset) -> None:
    """Train and test the model, and write the outcome. Returns when every rank has finished."""
    require_asked_gpus(config)
    if config.deterministic:
        make_deterministic()
    join()  # Distributed: connect the ranks (0 to size - 1) that torchrun or the operator started.
    log = Log(speaks=dist.get_rank() == 0)  # Distributed: only rank 0 prints the log.
    computer = choose_computer(config, log)

    model = computer.build(config, dataset, rank=dist.get_rank())
    optimizer, scaler = make_optimizer(config, model), computer.scaler()
    setup = Setup(computer, model, optimizer, scaler, Ema(config, model))
    # Distributed: rank 0 takes the lease on the run, and all ranks resume from the newest checkpoint.
    run = Run.begin(config, dataset, TorchState(model, optimizer, scaler, setup.ema), process_group(), log)
    evaluator = Evaluator(run, dataset.tests, functools.partial(evaluate, dataset, setup, config), setup.save, MODEL)

    progress = train(dataset, setup, evaluator)
    run.save_end()
    accuracy = evaluator.at_end()
    run.heed_stop()  # Distributed: all ranks stop if one was asked to stop.
    progress.finish(accuracy, model=MODEL, save=setup.save)
    dist.barrier()  # Distributed: no rank may exit with 0 before rank 0 has written the model, so all ranks wait here.
    dist.destroy_process_group()  # Distributed


def join() -> None:
    """Initialize the process group. If WORLD_SIZE is not set, the group consists of this rank alone."""
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    with stdout_silenced():
        if "WORLD_SIZE" in os.environ:
            dist.init_process_group(backend)  # Distributed: reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
        else:
            dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def process_group() -> ProcessGroup:
    return ProcessGroup(dist.get_rank(), dist.get_world_size(), from_rank_0, of_all_ranks)  # Distributed


def from_rank_0(value: Any) -> Any:
    values = [value]
    dist.broadcast_object_list(values, src=0)  # Distributed
    return values[0]


def of_all_ranks(value: Any) -> list[Any]:
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)  # Distributed
    return values


@contextlib.contextmanager
def stdout_silenced() -> Iterator[None]:
    """Discard stdout, because gloo's C++ code prints on every rank to how many other ranks it is connected."""
    stdout = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


def choose_computer(config: Config, log: Log) -> Computer:
    # Distributed: without torchrun, each pod has one rank.
    local_rank, local_ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    layout = torch.channels_last
    return Computer.choose(config, log, local_rank=local_rank, local_ranks=local_ranks, layout_on_gpu=layout)


def train(dataset: Dataset, setup: Setup, evaluator: Evaluator) -> Progress:
    """Train the model in place. Raises DivergedError after too many bad steps, StoppedError on a request to stop."""
    config, model = evaluator.run.config, setup.model
    share_buffers_and_uncommon_weights(model)  # Distributed
    # Distributed: DistributedDataParallel broadcasts rank 0's weights. After the first step, DistributedDataParallel
    # rebuilds its gradient buckets in the order in which the gradients arrived, which changes how sums are rounded.
    # With find_unused_parameters it keeps the first buckets, so a resumed run computes exactly the same numbers.
    # Without find_unused_parameters it waits for the gradient of every parameter, but a user's forward pass may not use
    # some of them. A user's forward pass may depend on buffers, so these must be rank 0's too. In distrain's own
    # models, buffers matter only in the evaluation.
    is_of_user = is_users(config.model)
    finds_unused = config.deterministic or is_of_user
    replicate = functools.partial(
        DistributedDataParallel,
        model,
        find_unused_parameters=finds_unused,
        # torch.compile splits the graph at the edges of the gradient buckets.
        static_graph=not finds_unused and not config.compile,
        broadcast_buffers=is_of_user,
        gradient_as_bucket_view=True,
    )
    forward = replicate() if dist.get_world_size() > 1 else model
    if dist.get_world_size() == 1 and is_of_user:
        forward = forward_of_one(model, replicate)
    of_ranks = OfRanks(dist.get_world_size(), sum_beside, averages_in_backward=True)
    with gradient_computed_twice_named():
        return run_steps(dataset, setup, forward, evaluator, of_ranks)


def forward_of_one(model: Any, replicate: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return the forward pass of a user's model on a single rank.

    A single rank does not need DistributedDataParallel. But the first step uses it anyway: if DistributedDataParallel
    refuses the model, the user sees the error at once, and not when the run later grows to two ranks.
    """

    def passes() -> Iterator[Any]:
        replica = replicate()
        yield replica
        del replica  # Keep the replica until here, because the first backward pass needs it too.
        yield from itertools.repeat(model)

    pass_of_step = passes()
    return lambda images: next(pass_of_step)(images)


def share_buffers_and_uncommon_weights(model: Any) -> None:
    """Broadcast rank 0's buffers, and also the tensors that DistributedDataParallel cannot broadcast.

    DistributedDataParallel cannot broadcast tensors whose type is in UNKNOWN_TYPES, and tensors made by expand(). Make
    DistributedDataParallel ignore such tensors.
    """
    buffers = dict(model.named_buffers())
    tensors = {**dict(model.named_parameters()), **buffers}
    uncommon = {
        name: tensor
        for name, tensor in tensors.items()
        if tensor.dtype in UNKNOWN_TYPES or without_repeats(tensor) is not tensor
    }
    # PyTorch has no public function to tell DistributedDataParallel which parameters to ignore.
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(uncommon))  # Distributed
    take_from_rank_0({**buffers, **uncommon}, broadcast)


def broadcast(tensors: dict[str, Any]) -> None:
    for tensor in tensors.values():
        dist.broadcast(tensor, src=0)  # Distributed


def evaluate(dataset: Dataset, setup: Setup, config: Config) -> tuple[float, float]:
    """Test the model.

    Return how often the model's first choice is right, and how often one of its first five choices is right.
    """
    # Distributed: each rank has its own batch normalization statistics, but only rank 0's are saved. So all ranks test
    # with rank 0's statistics.
    take_from_rank_0(dict(setup.model.named_buffers()), broadcast)
    # Distributed: each rank tests on its own part of the samples.
    batches = evaluation_batches(config, dataset, rank=dist.get_rank(), ranks=dist.get_world_size())
    with setup.ema.applied():
        right = setup.computer.count_right(setup.model, batches)
    dist.all_reduce(right)  # Distributed
    top1, top5 = right.tolist()
    return top1, top5


def sum_beside(numbers: Any) -> Callable[[], Any]:
    """Start to add up a tensor over the ranks while the step is computed.

    Return a function that waits for the sum and returns it.
    """
    begun = dist.all_reduce(numbers, async_op=True)  # Distributed

    def total() -> Any:
        begun.wait()  # On a GPU, wait() does not block this process: only later work on the GPU waits.
        return numbers

    return total
