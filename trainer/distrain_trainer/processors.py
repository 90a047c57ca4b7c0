"""Count the processors that a container may use.

A program sees all processors of the machine, although its container may use only some of them. Many programs then start
one thread for each processor that they see.
"""

from __future__ import annotations

import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
# The files in which cgroup v2 and v1 store the CPU limit: microseconds of processor time per period, and the period.
LIMITS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def count_processors(cgroups: Path = CGROUPS) -> int:
    """Return the container's CPU limit in whole processors, at least 1.

    Without a limit, count all visible processors.
    """
    seen = len(os.sched_getaffinity(0))
    for files in LIMITS:
        try:
            quota, period = map(int, " ".join((cgroups / file).read_text() for file in files).split())
        except (OSError, ValueError):
            continue  # The file is missing under the other cgroup version, or contains "max" if there is no limit.
        if quota > 0:
            return max(1, min(seen, quota // period))
    return seen


def local_ranks_from_environment() -> tuple[int, int]:
    """Return this rank's number within its pod, and the number of ranks in the pod."""
    names = ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")
    for rank, ranks in names:
        if rank in os.environ and ranks in os.environ:
            return int(os.environ[rank]), int(os.environ[ranks])
    return 0, 1
