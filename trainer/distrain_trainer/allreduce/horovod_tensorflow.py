"""All-reduce TensorFlow tensors with Horovod."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from distrain_trainer.tensorflow.training import choose_device


class Horovod:
    def __init__(self) -> None:
        hvd.init()
        choose_device(local_rank=hvd.local_rank(), local_size=hvd.local_size())
        self.rank: int = hvd.rank()
        self.size: int = hvd.size()

    def put(self, array: NDArray[np.float32]) -> Any:
        return tf.constant(array)

    def all_reduce(self, tensor: Any) -> Any:
        total = hvd.allreduce(tensor, op=hvd.Sum, name=f"allreduce_{len(tensor)}")
        # A GPU only queues the sum. Reading one number waits for all.
        total[0].numpy()
        return total

    def get(self, tensor: Any) -> NDArray[np.float32]:
        array: NDArray[np.float32] = tensor.numpy()
        return array

    def close(self) -> None:
        hvd.shutdown()


connect = Horovod
