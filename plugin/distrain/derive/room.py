"""Define the capacity of nodes for workers whose size is not derived yet.

`StatedNodes` and `InstanceNodes` are nodes that the user describes; `measured.py` reads the nodes of a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from distrain.derive.split import Split
from distrain.instances.reserved import offered
from distrain.instances.table import Instance
from distrain.kube.quantities import Units, add, text

if TYPE_CHECKING:
    from distrain.workload.manifest import Job

GIBIBYTE = 2**30
# A share of at least CORE millicores is rounded down to whole cores, and a share of at least one GiB to whole GiB.
CORE = 1000


class Room(Protocol):
    """The capacity of the nodes, if it is known."""

    @property
    def largest(self) -> int:
        """Return the largest number of GPUs that one worker can have."""

    def fits(self, split: Split) -> bool:
        """Tell whether all workers of the split fit on the nodes now, beside the pods that run there."""

    def may_fit(self, split: Split) -> bool:
        """Tell whether all workers of the split fit on the nodes once the other pods have ended."""

    def share(self, split: Split) -> dict[str, str]:
        """Return a worker's share of a node's CPU and memory, if these are known."""


class StatedNodes(Struct, frozen=True):
    """An unlimited number of nodes with `largest` GPUs each."""

    largest: int

    def fits(self, split: Split) -> bool:
        return split.gpus <= self.largest

    may_fit = fits

    def share(self, split: Split) -> dict[str, str]:
        return {}


class InstanceNodes(StatedNodes, frozen=True):
    """An unlimited number of nodes of one instance type; `free` is the part of a node that workers can use."""

    free: Units

    def share(self, split: Split) -> dict[str, str]:
        """Return a worker's share of the node's CPUs and memory, in proportion to its GPUs."""
        steps = (("cpu", CORE), ("memory", GIBIBYTE))
        shares = {name: rounded(self.free[name] * split.gpus // self.largest, step) for name, step in steps}
        return {name: text(name, amount) for name, amount in shares.items() if amount}


def nodes_of(instance: Instance, job: Job) -> InstanceNodes:
    """Return nodes of this type. Room is left for the job's other pods, which may run on the same node as a worker."""
    # Imported only here, because most runs do not need this module.
    from distrain.workload.manifest import MASTER

    free = offered(instance, efa=bool(instance.efa))
    for role in job.others:
        if role.name != MASTER:
            add(free, role.request, -role.replicas)
    return InstanceNodes(instance.gpus, free)


def rounded(amount: int, step: int) -> int:
    """Round a share down to whole cores or GiB.

    Round a share below one core or GiB down to tenths of a core or to MiB.
    """
    unit = step if amount >= step else (step // 10 if step == CORE else 2**20)
    return max(0, amount // unit * unit)
