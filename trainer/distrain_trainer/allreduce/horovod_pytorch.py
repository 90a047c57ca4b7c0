"""All-reduce PyTorch tensors with Horovod."""

from __future__ import annotations

from typing import Any

import horovod.torch as hvd
import torch

from distrain_trainer.allreduce.backend import Backend
from distrain_trainer.config import Config
from distrain_trainer.log import Log
from distrain_trainer.pytorch.training import Computer


def connect() -> Backend:
    hvd.init()
    quiet = Log(speaks=False)
    computer = Computer.choose(Config(steps=1), quiet, local_rank=hvd.local_rank(), local_ranks=hvd.local_size())
    return Backend(
        hvd.rank(),
        hvd.size(),
        put=lambda array: torch.from_numpy(array).to(computer.device),
        all_reduce=all_reduce,
        get=lambda tensor: tensor.cpu().numpy(),
        close=hvd.shutdown,
    )


def all_reduce(tensor: Any) -> Any:
    total = hvd.allreduce(tensor, op=hvd.Sum, name=f"allreduce_{len(tensor)}")
    if tensor.is_cuda:
        torch.cuda.synchronize()
    return total
