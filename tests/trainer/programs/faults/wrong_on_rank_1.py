"""Run under mpirun: rank 1 receives one wrong number in the sum of the last size."""

from __future__ import annotations

import sys
from typing import Any

from distrain_trainer.allreduce import __main__ as allreduce
from distrain_trainer.allreduce import horovod_tensorflow


class Wrong(horovod_tensorflow.Horovod):
    def get(self, tensor: Any) -> Any:
        array = super().get(tensor).copy()
        if self.rank == 1 and array.size == 256:
            array[7] += 1
        return array


setattr(horovod_tensorflow, "connect", Wrong)  # noqa: B010
allreduce.main(sys.argv[1:])
