"""All-reduce PyTorch tensors with torch.distributed: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from distrain_trainer.config import Config
from distrain_trainer.log import Log
from distrain_trainer.pytorch.ddp import choose_computer, join


class Torch:
    def __init__(self) -> None:
        join()
        self.device = choose_computer(Config(steps=1), Log(speaks=False)).device
        self.rank: int = dist.get_rank()
        self.size: int = dist.get_world_size()

    def put(self, array: NDArray[np.float32]) -> Any:
        return torch.from_numpy(array).to(self.device)

    def all_reduce(self, tensor: Any) -> Any:
        # Copy the tensor, as all_reduce works in place. The copy takes little of the measured time.
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


connect = Torch
