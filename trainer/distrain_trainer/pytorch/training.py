"""Functions that both PyTorch programs use: device, precision, the training loop, and evaluation."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

from distrain_trainer.checkpoint.buffer import write_file
from distrain_trainer.config import Config
from distrain_trainer.data import Batch, Dataset
from distrain_trainer.errors import DeviceError
from distrain_trainer.gpus import compiles, require_gpu_of_rank, require_gpus, tell_precision
from distrain_trainer.log import Log
from distrain_trainer.loop import message
from distrain_trainer.loop.evaluation import BEST_OF, Evaluator
from distrain_trainer.loop.progress import Progress
from distrain_trainer.loop.randomness import seed_model
from distrain_trainer.loop.steps import Outcome, make_steps
from distrain_trainer.models.user import is_users
from distrain_trainer.processors import count_processors
from distrain_trainer.pytorch import models
from distrain_trainer.pytorch.allreduce_wait import AllReduceWait
from distrain_trainer.pytorch.batches import TensorBatch, upload_ahead
from distrain_trainer.pytorch.ema import Ema
from distrain_trainer.pytorch.optimizers import begin_momentum
from distrain_trainer.pytorch.state import to_array
from distrain_trainer.pytorch.statistics import Statistics, without_repeats

# The name of the saved weights' file.
MODEL = "model.pt"
PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Computer:
    """The device and the precision that this rank uses."""

    device: torch.device
    precision: torch.dtype
    layout: torch.memory_format = torch.contiguous_format
    label_smoothing: float = 0.0

    @classmethod
    def choose(
        cls,
        config: Config,
        log: Log,
        *,
        local_rank: int,
        local_ranks: int,
        layout_on_gpu: torch.memory_format = torch.contiguous_format,
    ) -> Computer:
        """Choose one of this machine's GPUs for this rank.

        Without a GPU, use the rank's share of the container's processors. Raises DeviceError if a
        machine has more ranks than GPUs.
        """
        gpus = torch.cuda.device_count()
        tell_precision(config, log, has_gpu=gpus > 0)
        compiles(config, log, has_gpu=gpus > 0)
        if gpus == 0:
            choose_threads(local_ranks)
            return cls(torch.device("cpu"), torch.float32, label_smoothing=config.label_smoothing)
        require_gpu_of_rank(local_rank, local_ranks=local_ranks, visible=gpus)
        torch.cuda.set_device(local_rank)  # Distributed: each rank on a machine uses a different GPU.
        choose_kernels(config)
        # A user's model may call view(), which fails on tensors in the channels-last layout.
        layout = torch.contiguous_format if is_users(config.model) else layout_on_gpu
        return cls(torch.device("cuda", local_rank), PRECISIONS[config.precision], layout, config.label_smoothing)

    def build(self, config: Config, dataset: Dataset, *, rank: int) -> Any:
        """Return the untrained model."""
        # Distributed: a different seed on each rank gives different dropout.
        torch.manual_seed(seed_model(config, rank=rank))
        model = models.build(config.model, shape=dataset.shape, classes=dataset.classes)
        model = model.to(self.device, memory_format=self.layout)
        if config.compile and self.device.type == "cuda":
            compile_forward(model)
        return model

    def seed(self, seed: int) -> None:
        """For the next step, seed the generators from which layers such as dropout draw random numbers.

        Do not call torch.manual_seed here. Without a GPU, each call of that function stores the seed and a traceback
        for the case that CUDA starts later, and never frees them.
        """
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    @property
    def steps_ahead(self) -> int:
        """How many steps to queue on a GPU before waiting for the outcome of an earlier step.

        With a queued step, the GPU always has work.
        """
        return 1 if self.device.type == "cuda" else 0

    def upload(self, batches: Iterator[Batch]) -> Iterator[TensorBatch]:
        """Copy the batches to the device. On a GPU, the next batch is copied while the GPU computes a step."""
        if isinstance(batches, repeat):
            # Synthetic data repeats a single batch, so keep that batch on the device.
            return repeat(TensorBatch.of(next(batches)).to(self.device))
        return upload_ahead(batches, self.device) if self.device.type == "cuda" else map(TensorBatch.of, batches)

    def logits(self, model: Any, batch: TensorBatch) -> Any:
        """Return the model's logits of a batch, in fp32."""
        if self.precision == torch.float32:
            return model(batch.channels_first(self.layout)).float()
        with torch.autocast(self.device.type, dtype=self.precision):
            return model(batch.channels_first(self.layout)).float()

    def loss(self, model: Any, batch: TensorBatch) -> Any:
        """Return this rank's loss of a batch. The mean of this loss over all ranks is the loss of the global batch."""
        logits, smoothing = self.logits(model, batch), self.label_smoothing
        losses = torch.nn.functional.cross_entropy(logits, batch.labels, reduction="none", label_smoothing=smoothing)
        return torch.dot(batch.weights, losses)

    def scaler(self) -> Any:
        """Return the gradient scaler: fp16 cannot represent small gradients, so the loss is scaled up."""
        return torch.amp.GradScaler(self.device.type, enabled=self.precision == torch.float16)

    def count_right(self, model: Any, batches: Iterator[Batch]) -> Any:
        """Count the samples whose label has the largest logit, and those whose label has one of the five largest.

        Return both counts in a single tensor.
        """
        model.eval()
        right = torch.zeros(2, dtype=torch.float64, device=self.device)
        with torch.no_grad():
            for batch in self.upload(batches):
                logits, labels, counts = self.logits(model, batch), batch.labels, batch.weights > 0
                best = logits.topk(min(BEST_OF, logits.shape[1]), dim=1).indices
                right[0] += ((logits.argmax(dim=1) == labels) & counts).sum()
                right[1] += ((best == labels[:, None]).any(dim=1) & counts).sum()
        model.train()
        return right


def require_asked_gpus(config: Config) -> None:
    """Raise DeviceError if PyTorch sees fewer GPUs than the pod requests, or if it needs a C compiler and has none."""
    # The CPU images contain PyTorch from PyPI without its CUDA libraries. This PyTorch still reports a CUDA version, so
    # look for one of the libraries.
    kernels = Path(torch.__file__).parent / "lib" / "libtorch_cuda_linalg.so"
    is_for_gpus = torch.version.hip is not None or (torch.version.cuda is not None and kernels.exists())
    gpus = torch.cuda.device_count()
    require_gpus("PyTorch", visible=gpus, is_for_gpus=is_for_gpus)
    if config.compile and gpus and not any(map(shutil.which, (os.environ.get("CC", "gcc"), "clang"))):
        raise DeviceError(
            "trainer.extraArgs: --compile needs a C compiler, and this image has none; remove it, or add gcc"
        )


def choose_kernels(config: Config) -> None:
    """Let cuDNN try several kernels and choose the fastest one.

    Compute matrix products of fp32 in TF32, as PyTorch does for convolutions.
    """
    if not config.deterministic:
        torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")


def compile_forward(model: Any) -> None:
    """Compile the model's forward and backward pass in place, which does not change the names in checkpoints."""
    forward = model.forward

    # torch.compile does not compile functions of PyTorch itself, such as the forward pass of nn.Sequential. But it
    # compiles functions that this function calls.
    def whole(images: Any) -> Any:
        return forward(images)

    model.forward = torch.compile(whole)


def choose_threads(local_ranks: int) -> None:
    """Divide this container's processors among its ranks.

    By default, PyTorch uses one thread per processor of the machine. If the user or torchrun has set OMP_NUM_THREADS,
    keep it. torchrun sets it to 1 if a pod has several ranks.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, count_processors() // local_ranks))


def change_weights(optimizer: Any, scaler: Any, statistics: Statistics, batch: TensorBatch, loss: Any) -> Any:
    """Make the optimizer's step. The gradients must be equal on all ranks. Return this rank's loss, a tensor.

    If a gradient is not finite, all ranks leave the step out, and the loss is NaN. But if the fp16 loss scale was above
    1 before the step, the scale probably caused an overflow, and the loss is returned unchanged. If the batch has no
    samples, the batch normalization statistics stay unchanged. Without fp16 this function does not wait for the GPU.
    """
    if scaler.is_enabled():
        one = torch.ones((), device=loss.device)
        before = scaler.scale(one)
        scaler.step(optimizer)
        scaler.update()
        is_left_out = scaler.scale(one) < before
        is_told = is_left_out & (before <= 1)
    else:
        is_told = is_left_out = make_step_if_finite(optimizer)
    statistics.restore_if(torch.ones_like(is_left_out) if batch.is_empty else is_left_out)
    return torch.where(is_told, math.nan, loss)


def make_step_if_finite(optimizer: Any) -> Any:
    """Make the optimizer's step if all gradients are finite.

    Return a boolean tensor that is true if the step is left out.

    The optimizer itself checks `found_inf` and leaves the step out. So this process can queue the step on a GPU before
    it knows whether all gradients are finite.
    """
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    gradients, device = [each.grad for each in parameters if each.grad is not None], parameters[0].device
    # Name the type: a user's model may have changed PyTorch's default type, and the two functions below accept only
    # float32.
    found_inf, one = (make((), dtype=torch.float32, device=device) for make in (torch.zeros, torch.ones))
    # torch.amp.GradScaler calls this private function too, and sets `found_inf` on fused optimizers in the same way. It
    # multiplies by one.
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, one)
    optimizer.found_inf = found_inf
    optimizer.step()
    return found_inf > 0


def clear_gradients(optimizer: Any) -> None:
    """Do the same as optimizer.zero_grad(), which takes five times as long because it informs PyTorch's profiler."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


@dataclass(frozen=True)
class OfRanks:
    """The parts of a step that differ between DistributedDataParallel and Horovod.

    `sum` starts to add up a small tensor over all ranks, and returns a function that returns the sum. The optimizer
    makes its step within `averaged(optimizer)`, which first waits until the gradients are averaged over the ranks.
    `averages_in_backward` is true if the backward pass itself waits for the averages.
    """

    ranks: int
    sum: Callable[[Any], Callable[[], Any]]
    averages_in_backward: bool
    averaged: Callable[[Any], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True)
class Setup:
    """The model that a rank trains, and the objects that the training needs.

    `optimizer` must be the object whose step() is called.
    """

    computer: Computer
    model: Any
    optimizer: Any
    scaler: Any
    ema: Ema

    def save(self, path: Path) -> None:
        """Write the tested weights in two formats: for `load_state_dict`, with or without GPUs, and as safetensors."""
        with self.ema.applied():
            weights = {name: value.cpu() for name, value in self.model.state_dict().items()}
            torch.save(weights, path)
            write_file(path.with_suffix(".safetensors"), {name: to_array(value) for name, value in weights.items()})


def run_steps(
    dataset: Dataset, setup: Setup, forward: Callable[[Any], Any], evaluator: Evaluator, of_ranks: OfRanks
) -> Progress:
    """Make all remaining steps. `forward` is the forward pass of the model, or of an object that wraps the model.

    Raises DivergedError after too many bad steps, StoppedError on a request to stop.
    """
    computer, optimizer, scaler, run = setup.computer, setup.optimizer, setup.scaler, evaluator.run
    statistics = Statistics(setup.model)
    begin_momentum(optimizer)
    setup.ema.begin(run.position.step)
    wait = measured_wait(run.config, computer, setup.model, of_ranks)

    def make_step(batch: TensorBatch, *, rate: float, seed: int, asked: int) -> Callable[[], Outcome]:
        for group in optimizer.param_groups:
            group["lr"] = rate
        computer.seed(seed)
        clear_gradients(optimizer)
        statistics.keep()
        loss = computer.loss(forward, batch)
        # Distributed: sum the ranks' messages while the gradients are averaged. A single rank needs no sum.
        told = of_ranks.sum(message_of(loss.detach(), asked)) if of_ranks.ranks > 1 else None
        scaler.scale(loss).backward()  # Distributed: meanwhile the gradients are averaged over the ranks.
        if wait is not None and not of_ranks.averages_in_backward:
            wait.begin()
        with of_ranks.averaged(optimizer):
            waited = wait.end() if wait is not None else lambda: None
            loss = change_weights(optimizer, scaler, statistics, batch, loss.detach())
        setup.ema.update()
        return outcome_of_one(loss, asked) if told is None else outcome_of(loss, told(), of_ranks.ranks, waited)

    ahead = computer.steps_ahead
    return make_steps(run, dataset, make_step, prepare=computer.upload, ahead=ahead, evaluator=evaluator)


def measured_wait(config: Config, computer: Computer, model: Any, of_ranks: OfRanks) -> AllReduceWait | None:
    """Return the object that measures how long each step waits for the averaged gradients.

    Return None if there is only one rank. On GPUs, also return None unless the run serves metrics, because this
    measurement was never tested on several GPUs.
    """
    is_on_gpu = computer.device.type == "cuda"
    if of_ranks.ranks == 1 or (is_on_gpu and config.metrics_port is None):
        return None
    if of_ranks.averages_in_backward:
        return AllReduceWait.within_backward(model, is_on_gpu=is_on_gpu)
    return AllReduceWait(is_on_gpu=is_on_gpu)


def message_of(loss: Any, asked: int) -> Any:
    """Return this rank's message in the format of distrain_trainer.loop.message."""
    numbers = torch.zeros(message.SIZE, dtype=torch.float64, device=loss.device)
    numbers[0] = loss
    numbers[1 + asked].fill_(1)  # Use fill_: assigning 1 would wait for the GPU.
    return numbers


def outcome_of(
    loss: Any, told: Any, ranks: int, waited: Callable[[], float | None] = lambda: None
) -> Callable[[], Outcome]:
    """Return a function that waits for the outcome of a step, but not for work queued on a GPU after that step.

    `told` is the sum of the ranks' messages. `waited` returns how long the step waited for the averaged gradients; call
    it after the outcome is known.
    """
    numbers = begin_copy(torch.cat([loss.double().view(1), told]))

    def outcome() -> Outcome:
        own, *told = numbers()
        return message.outcome(own, told, ranks, waited())

    return outcome


def outcome_of_one(loss: Any, asked: int) -> Callable[[], Outcome]:
    """For a run with only one rank: return a function that waits for the outcome of a step."""
    numbers = begin_copy(loss.view(1))

    def outcome() -> Outcome:
        (own,) = numbers()
        return Outcome(own, asked)

    return outcome


def begin_copy(numbers: Any) -> Callable[[], list[float]]:
    """Start to copy a tensor from its device to the host.

    Return a function that waits for the copy and returns the numbers.
    """
    copy = numbers.to("cpu", non_blocking=True)
    is_copied = torch.cuda.current_stream().record_event() if numbers.is_cuda else None

    def copied() -> list[float]:
        if is_copied is not None:
            is_copied.synchronize()
        return copy.tolist()  # type: ignore[no-any-return]

    return copied


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
def take_from_rank_0(tensors: Mapping[str, Any], broadcast: Callable[[dict[str, Any]], None]) -> None:
    """Overwrite the tensors with the values of rank 0.

    The values are sent as bytes, because neither Horovod nor torch.distributed can send all element types.
    """
    own = {name: without_repeats(tensor) for name, tensor in tensors.items()}
    whole = {name: tensor.resolve_conj().contiguous() for name, tensor in own.items()}
    broadcast({name: tensor.view(-1).view(torch.uint8) for name, tensor in whole.items() if tensor.numel()})
    for name, tensor in own.items():
        if tensor.data_ptr() != whole[name].data_ptr():
            tensor.copy_(whole[name])


def make_deterministic() -> None:
    """Make computations bitwise reproducible. Call this before any other call to PyTorch."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)
