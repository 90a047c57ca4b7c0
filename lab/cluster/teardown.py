"""Remove the embedded Kubernetes: `python3 -m lab.cluster.teardown`.

The module uses only Python's standard library, so `make clean` works even if the lab's Python environment is broken.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lab.cluster import namespaces
from lab.errors import LabError
from lab.paths import CACHE_DIR


def down() -> None:
    """Remove the cluster: its processes, mounts, namespaces, iptables rules and folder. The cache stays.

    Raises LabError with the names of everything that could not be removed.
    """
    with lock():
        namespaces.destroy()


@contextmanager
def lock() -> Iterator[None]:
    """Prevent other processes from starting or removing the cluster meanwhile.

    Raises LabError if another process is starting or removing the cluster.
    """
    CACHE_DIR.mkdir(parents=True, exist_ok=True)
    with (CACHE_DIR / "lab.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError("another `make cluster` or `make clean` is running; wait until it has ended") from None
        yield


def main() -> int:
    try:
        down()
    except (LabError, OSError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    print(f"the cluster is gone; builds and images stay in {CACHE_DIR}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
