"""Remove the cluster and the cache of builds: `python3 -m lab.cluster.distclean`."""

from __future__ import annotations

import shutil
import sys

from lab.cluster import teardown
from lab.paths import CACHE_DIR

# `make distclean` removes these files of the lab from the cache folder. `make distclean` keeps other files in the cache
# folder, because they may be the user's own.
FOLDERS = (
    "bench-guest",
    "bench-mutants",
    "bench-tests",
    "bin",
    "buildah",
    "chaos",
    "client-faults",
    "containerd",
    "demo-report",
    "helm-data",
    "images",
    "logs",
    "many-objects",
    "passed",
    "plugin-venv",
    "pycache",
    "scanners",
    "trainer",
    "venvs",
)


def main() -> int:
    code = teardown.main()
    if code == 0:
        for name in FOLDERS:
            shutil.rmtree(CACHE_DIR / name, ignore_errors=True)
        for lock in CACHE_DIR.glob("*.lock"):
            lock.unlink()
        left = sorted(path.name for path in CACHE_DIR.iterdir())
        print(f"{CACHE_DIR}: " + (f"left: {', '.join(left)}" if left else "empty"))
    return code


if __name__ == "__main__":
    sys.exit(main())
