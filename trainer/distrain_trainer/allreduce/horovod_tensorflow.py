"""All-reduce TensorFlow tensors with Horovod."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from distrain_trainer.allreduce.backend import Backend
from distrain_trainer.tensorflow.training import choose_device


def connect() -> Backend:
    hvd.init()
    choose_device(local_rank=hvd.local_rank(), local_size=hvd.local_size())
    return Backend(hvd.rank(), hvd.size(), tf.constant, all_reduce, lambda tensor: tensor.numpy(), hvd.shutdown)


def all_reduce(tensor: Any) -> Any:
    total = hvd.allreduce(tensor, op=hvd.Sum, name=f"allreduce_{len(tensor)}")
    # On a GPU, hvd.allreduce only queues the sum. Reading one element waits until the whole sum is computed.
    total[0].numpy()
    return total
