"""Make 20,000 broadcasts with Horovod for MXNet.

Each broadcast has a long name, which a C++ string stores in separately allocated memory.
"""

from __future__ import annotations

import horovod.mxnet as hvd
import mxnet as mx

hvd.init()
value = mx.nd.zeros(1)
for _ in range(10_000):
    for turn in ("first", "second"):
        hvd.broadcast_(value, root_rank=0, name=f"the {turn} name that needs memory of its own")
    mx.nd.waitall()
