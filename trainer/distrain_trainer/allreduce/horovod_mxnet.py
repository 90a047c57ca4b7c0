"""All-reduce MXNet arrays with Horovod."""

from __future__ import annotations

from typing import Any

import horovod.mxnet as hvd
import mxnet as mx

from distrain_trainer.allreduce.backend import Backend
from distrain_trainer.mxnet.horovod import choose_device


def connect() -> Backend:
    hvd.init()
    device = choose_device()
    return Backend(
        hvd.rank(),
        hvd.size(),
        put=lambda array: mx.nd.array(array, ctx=device),
        all_reduce=all_reduce,
        get=lambda array: array.asnumpy(),
        close=hvd.shutdown,
    )


def all_reduce(array: Any) -> Any:
    total = hvd.allreduce(array, op=hvd.Sum, name=f"allreduce_{len(array)}")
    total.wait_to_read()
    return total
