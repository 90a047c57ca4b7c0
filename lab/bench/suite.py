"""`make bench`: measure the plugin, the chart, the trainer and the lab, one module or program after another.

The figures: the time of rendering, the plugin's start, the trainer's data layer, the cost of checkpoints, the time in
which `check` reads and judges a large cluster, the lab's start, and the trainer's speed by number of workers. Between
them run the comparisons with Kubernetes' admission and with the chart's schema, on more random cases than `make test`
has.
"""

from __future__ import annotations

import os
import subprocess
import sys

from lab.bench import cluster_start, plugin_start, rendering, training_speed
from lab.paths import REPOSITORY

# Test modules that compare random cases with other code, and their numbers of cases.
RANDOM = {
    "tests/chart/values/test_random_values.py": 10_000,
    "tests/plugin/admission/test_pod_security.py": 100_000,
    "tests/plugin/admission/test_random_admission.py": 100_000,
}


def main() -> None:
    rendering.main()
    plugin_start.main()
    for module, count in RANDOM.items():
        _run("pytest", "-q", module, RANDOM_VALUES=str(count))
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
