"""`make bench`: measure the plugin, the chart, the trainer and the lab, one module or program after another.

The figures: the time of rendering, the plugin's start, the trainer's data layer, the cost of checkpoints, the time in
which `check` reads and judges a large cluster, the lab's start, and the trainer's speed by number of workers.
"""

from __future__ import annotations

import os
import subprocess
import sys

from lab.bench import cluster_start, plugin_start, rendering, training_speed
from lab.paths import REPOSITORY

RANDOM_VALUES = "tests/chart/values/test_random_values.py"


def main() -> None:
    rendering.main()
    plugin_start.main()
    _run("pytest", "-q", RANDOM_VALUES, RANDOM_VALUES="10000")
    _run("lab.bench.data", PYTHONPATH="trainer")
    _run("tests.trainer.bench_checkpoint", PYTHONPATH="trainer")
    _run("lab.bench.reading")
    _run("lab.bench.solver", PYTHONPATH="plugin")
    cluster_start.main()
    training_speed.main()


def _run(module: str, *arguments: str, **environment: str) -> None:
    """Run a module in a new Python process; the environment selects the packages and the size of the workload."""
    command = [sys.executable, "-m", module, *arguments]
    subprocess.run(command, cwd=REPOSITORY, env={**os.environ, **environment}, check=True)
