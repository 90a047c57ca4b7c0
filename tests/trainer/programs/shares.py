"""Run as a rank of MXNet's program with Horovod: broadcast several values from rank 0, one after the other."""

from __future__ import annotations

import horovod.mxnet as hvd

from distrain_trainer.mxnet.horovod import process_group

hvd.init()
ranks = process_group()
for number in range(50):
    assert ranks.broadcast(bytes([number]) * 10**6 if ranks.rank == 0 else None) == bytes([number]) * 10**6
print("all the same")
