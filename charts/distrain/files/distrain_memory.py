"""Count the processes of this pod that the kernel has killed for lack of memory (OOM kills).

The scripts that import this module run in any image, so the module uses only Python 3.6 and its standard library.
"""

import os
from typing import Optional

CGROUP = "/sys/fs/cgroup"
# The files of the container's cgroup that count OOM kills, in cgroup version 2 and in version 1. Both files have a line
# such as `oom_kill 3`.
FILES = ("memory.events", "memory/memory.oom_control")


def oom_kills() -> Optional[int]:
    """Return the number of processes that were killed since the container's start, or None if the number is unknown."""
    for name in FILES:
        try:
            with open(os.path.join(CGROUP, name), encoding="utf-8") as lines:
                counts = dict(line.split() for line in lines)
            return int(counts["oom_kill"])
        except (OSError, ValueError, KeyError):
            continue
    return None
