"""All-reduce PyTorch tensors with Horovod."""

from __future__ import annotations

from typing import Any

import horovod.torch as hvd
import numpy as np
import torch
from numpy.typing import NDArray

from distrain_trainer.config import Config
from distrain_trainer.log import Log
from distrain_trainer.pytorch.training import Computer


class Horovod:
    def __init__(self) -> None:
        hvd.init()
        quiet = Log(speaks=False)
        computer = Computer.choose(Config(steps=1), quiet, local_rank=hvd.local_rank(), local_ranks=hvd.local_size())
        self.device = computer.device
        self.rank: int = hvd.rank()
        self.size: int = hvd.size()

    def put(self, array: NDArray[np.float32]) -> Any:
        return torch.from_numpy(array).to(self.device)

    def all_reduce(self, tensor: Any) -> Any:
        total = hvd.allreduce(tensor, op=hvd.Sum, name=f"allreduce_{len(tensor)}")
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return total

    def get(self, tensor: Any) -> NDArray[np.float32]:
        array: NDArray[np.float32] = tensor.cpu().numpy()
        return array

    def close(self) -> None:
        hvd.shutdown()


connect = Horovod
