"""The all-reduce of jobs that train with PyTorch: NCCL between GPUs, gloo between CPUs, started by torchrun."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from distrain_trainer.errors import DeviceError


class Torch:
    def __init__(self) -> None:
        self.device = choose_device()
        dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()

    def put(self, array: NDArray[np.float32]) -> Any:
        return torch.from_numpy(array).to(self.device)

    def all_reduce(self, tensor: Any) -> Any:
        # A copy, as it is summed in place; of the time it takes a small part.
        total = tensor.clone()
        dist.all_reduce(total)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return total

    def get(self, tensor: Any) -> NDArray[np.float32]:
        array: NDArray[np.float32] = tensor.cpu().numpy()
        return array

    def close(self) -> None:
        dist.destroy_process_group()


def choose_device() -> Any:
    """Take one GPU of this machine, if it has any."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    local_rank, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= gpus:
        raise DeviceError(f"workers.gpus: this worker runs rank {local_rank} and sees {gpus} GPUs; make them equal")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


connect = Torch
