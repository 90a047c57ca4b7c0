"""`make bench`: measure the plugin, the chart, the trainer and the lab. The modules run one after another.

The bench measures rendering, the plugin's start, checkpoints, the lab's start, and the trainer's data layer (alone, and
beside four libraries). It measures how fast `check` reads and judges a large cluster, how fast `status` reads a run of
1,000 workers, and how the trainer's speed depends on the number of workers. The bench also compares distrain with
Kubernetes' admission and with the chart's schema, on more random cases than `make test` does.
"""

from __future__ import annotations

import os
import subprocess
import sys

from lab.bench import cluster_start, training_speed
from lab.errors import LabError
from lab.paths import REPOSITORY

# Benchmark modules, each with the folder of the package that it imports.
PARTS = {
    "lab.bench.rendering": "",
    "lab.bench.plugin_start": "",
    "lab.bench.data": "trainer",
    "lab.bench.read_ahead": "trainer",
    "lab.bench.readers": "trainer",
    "lab.bench.listing": "trainer",
    "tests.trainer.benches.bench_checkpoint": "trainer",
    "tests.trainer.benches.bench_saving": "trainer",
    "tests.trainer.benches.bench_step": "trainer",
    "lab.bench.reading": "",
    "tests.plugin.status.bench": "plugin",
    "lab.bench.solver": "plugin",
}
# Test modules that compare distrain with other code on random cases, each with its number of cases.
RANDOM = {
    "tests/chart/values/test_random_values.py": 10_000,
    "tests/plugin/admission/test_pod_security.py": 100_000,
    "tests/plugin/admission/test_random_admission.py": 100_000,
}


def main() -> None:
    """Run each part. At the end, raise LabError with the names of the modules that failed or exceeded a limit."""
    over = [part for part, path in PARTS.items() if _fails(part, PYTHONPATH=path)]
    over += [module for module, count in RANDOM.items() if _fails("pytest", "-q", module, RANDOM_VALUES=str(count))]
    cluster_start.main()
    training_speed.main()
    if over:
        raise LabError(f"over a limit, or failed: {', '.join(over)}; its lines above say which figure")


def _fails(module: str, *arguments: str, **environment: str) -> bool:
    """Run a module in a new Python process.

    `environment` sets variables such as PYTHONPATH, and the number of random cases.
    """
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env={**os.environ, **environment}, check=False).returncode != 0
