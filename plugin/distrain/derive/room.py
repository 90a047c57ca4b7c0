"""Define the capacity of nodes for workers whose size is still to be derived.

`StatedNodes` and `InstanceNodes` are the nodes that the user states; `measured.py` reads the nodes of a cluster.
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
# A share of at least this many millicores (or of at least one GiB) is rounded down to whole cores (or GiB).
CORE = 1000


class Room(Protocol):
    """The capacity of the nodes, as far as it is known."""

    @property
    def largest(self) -> int:
        """Return the largest number of GPUs that one worker can have."""

    def fits(self, split: Split) -> bool:
        """Tell whether all workers of the split fit now."""

    def may_fit(self, split: Split) -> bool:
        """Tell whether all workers of the split fit after other pods end."""

    def share(self, split: Split) -> dict[str, str]:
        """Return a worker's share of CPU and memory, as far as it is known."""


class StatedNodes(Struct, frozen=True):
    """An unlimited number of nodes with `largest` GPUs each."""

    largest: int

    def fits(self, split: Split) -> bool:
        return split.gpus <= self.largest

    may_fit = fits

    def share(self, split: Split) -> dict[str, str]:
        return {}


class InstanceNodes(StatedNodes, frozen=True):
    """An unlimited number of nodes of one instance type; `free` is what a node has for the workers."""

    free: Units

    def share(self, split: Split) -> dict[str, str]:
        """Return a worker's share of the node's CPUs and memory, in proportion to its GPUs."""
        steps = (("cpu", CORE), ("memory", GIBIBYTE))
        shares = {name: rounded(self.free[name] * split.gpus // self.largest, step) for name, step in steps}
        return {name: text(name, amount) for name, amount in shares.items() if amount}


def nodes_of(instance: Instance, job: Job) -> InstanceNodes:
    """Return nodes of this type with room for the job's other pods, which may run on the same node as a worker."""
    # Imported here, because other runs do not need it.
    from distrain.workload.manifest import MASTER

    free = offered(instance, efa=bool(instance.efa))
    for role in job.others:
        if role.name != MASTER:
            add(free, role.request, -role.replicas)
    return InstanceNodes(instance.gpus, free)


def rounded(amount: int, step: int) -> int:
    """Round a share down to whole cores or GiB; a share below one core or GiB, to tenths of a core or to MiB."""
    unit = step if amount >= step else (step // 10 if step == CORE else 2**20)
    return max(0, amount // unit * unit)
