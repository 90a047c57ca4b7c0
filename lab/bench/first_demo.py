"""`make bench-demo`: measure a first demo, which starts with empty caches, and a second demo.

The bench uses empty caches in temporary folders, and removes them at the end. Debian packages stay installed, so the
bench does not measure their download. Run the bench on an idle machine: the first demo compiles for most of its time,
and other programs would slow it down.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from lab.cluster import namespaces
from lab.errors import LabError
from lab.paths import REPOSITORY

# Each demo may take this many seconds on two idle cores.
LIMITS = {"first": 900, "second": 150}


def main() -> None:
    """Raise LabError if a demo fails or takes longer than its limit."""
    if namespaces.exists():
        raise LabError("a lab is running, and the demo is measured from its start: `make clean` first")
    with tempfile.TemporaryDirectory(prefix="distrain-bench-demo-", dir="/var/tmp") as folder:
        environment = _with_empty_caches(Path(folder))
        try:
            seconds = {which: _seconds_of_demo(environment) for which in LIMITS}
        finally:
            _make("clean", environment)
    for which, limit in LIMITS.items():
        print(f"{which} demo: {seconds[which]:.0f} s, at most {limit} s")
    if over := [which for which, limit in LIMITS.items() if seconds[which] > limit]:
        raise LabError(f"{' and '.join(over)} demo: over the limit")


def _with_empty_caches(folder: Path) -> dict[str, str]:
    """Return the environment of a user who has not built or downloaded anything yet."""
    places = {"DISTRAIN_CACHE": "distrain", "GOCACHE": "go-build", "GOMODCACHE": "go-mod", "PIP_CACHE_DIR": "pip"}
    return {**os.environ, **{variable: str(folder / name) for variable, name in places.items()}}


def _seconds_of_demo(environment: dict[str, str]) -> float:
    _make("clean", environment)
    started = time.monotonic()
    _make("demo", environment)
    return time.monotonic() - started


def _make(target: str, environment: dict[str, str]) -> None:
    if subprocess.run(["make", target], cwd=REPOSITORY, env=environment, check=False).returncode != 0:
        raise LabError(f"`make {target}` failed; its lines above say why")
