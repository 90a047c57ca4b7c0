"""Warn if /dev/shm is too small for NCCL.

The page https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html tells
users to start containers with --shm-size=1g.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain.kube.quantities import Quantity, rounded_down, units
from distrain.lint.subject import Subject, ValueWarning

LEAST = 2**30
FOLDER = "/dev/shm"


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    """Warn if workers with GPUs have less than 1Gi of /dev/shm.

    The chart sets /dev/shm to 1Gi, to `shm`, or to the memory limit if that is smaller.
    """
    size = _size(subject)
    if subject.gpus and size is not None and units("memory", size) < LEAST:
        amount = rounded_down("memory", units("memory", size))
        found = f"leaves {amount} for /dev/shm, less than the 1Gi of NCCL's guide"
        yield ValueWarning(_path(subject), found, f"set it to {subject.gpus}Gi or more, 1Gi for each rank")


def _size(subject: Subject) -> Quantity | None:
    """Return the size of the workers' /dev/shm, or None if it has no limit of its own."""
    names = {mount.name for mount in subject.container.volume_mounts or () if mount.mount_path == FOLDER}
    sources = (volume.empty_dir for volume in subject.workers.spec.volumes or () if volume.name in names)
    return next((source.size_limit for source in sources if source), None)


def _path(subject: Subject) -> str:
    set_there = (name for name in ("shm", "memory") if subject.worker_values.get(name) is not None)
    place = next(subject.places("memory", "limits"), "workers.shm")
    return next((f"workers.{name}" for name in set_there), place)
