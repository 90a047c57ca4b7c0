"""`make bench`: measure the plugin, the chart, the trainer and the lab.

The figures: the time of rendering, the plugin's start, the trainer's data layer, the cost of checkpoints, the time in
which `check` reads and judges a large cluster, the lab's start, and the trainer's speed by number of workers.

Here two cores do the work of all workers, so the last figure shows what distribution costs, not what it gains.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.bench import plugin_start
from lab.builds import images
from lab.builds.golang import binary
from lab.cluster import client, lifecycle
from lab.errors import LabError
from lab.paths import CHART, KUBECONFIG, REPOSITORY
from lab.waiting import wait_until

NAMESPACE = "bench"
STARTS = 3
RENDERINGS = 20
EMPTY_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: small}}\n"
WORKERS = (1, 2, 4)
STEPS = 200
TOTAL = "total images/sec:"


def main() -> None:
    """Measure, and print a line per figure."""
    for helm in ("helm3", "helm4"):
        print(f"{helm} template: {_rendering(helm):.2f} x a chart of one ConfigMap (median of {RENDERINGS} pairs)")
    plugin_start.main()
    random_values = ["-m", "pytest", "-q", "tests/chart/values/test_random_values.py"]
    subprocess.run([sys.executable, *random_values], env={**os.environ, "RANDOM_VALUES": "10000"}, check=True)
    data = {**os.environ, "PYTHONPATH": "trainer"}
    subprocess.run([sys.executable, "-m", "lab.bench.data"], cwd=REPOSITORY, env=data, check=True)
    subprocess.run([sys.executable, "-m", "tests.trainer.bench_checkpoint"], cwd=REPOSITORY, env=data, check=True)
    subprocess.run([sys.executable, "-m", "lab.bench.reading"], cwd=REPOSITORY, check=True)
    plugin = {**os.environ, "PYTHONPATH": "plugin"}
    subprocess.run([sys.executable, "-m", "lab.bench.verdict"], cwd=REPOSITORY, env=plugin, check=True)
    starts = [_start() for _ in range(STARTS)]
    print(f"cluster ready, warm: {statistics.median(starts):.1f} s (median of {STARTS}, at most {max(starts):.1f} s)")
    lifecycle.prepare_namespace(NAMESPACE, "s3")
    for framework in images.FRAMEWORKS:
        client.load_image(images.trainer_image(framework))
        rates = {workers: _images_per_second(framework, workers) for workers in WORKERS}
        for workers, rate in rates.items():
            told = f"{workers} workers: {rate:8.0f} images/sec ({rate / rates[1]:.2f} x 1 worker)"
            print(f"{framework}, mnist, synthetic, {told}")


def _rendering(helm: str) -> float:
    """Return the time of `helm template` for a job, divided by that for a chart of one ConfigMap (median of pairs)."""
    with tempfile.TemporaryDirectory() as folder:
        templates = Path(folder) / "templates"
        templates.mkdir()
        (templates / "map.yaml").write_text(EMPTY_MAP, encoding="utf-8")
        (Path(folder) / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 0.1.0}\n", encoding="utf-8")
        ours = [str(CHART), "--values", str(REPOSITORY / "values" / "vgg16.yaml")]
        return statistics.median(_seconds(helm, *ours) / _seconds(helm, folder) for _ in range(RENDERINGS))


def _seconds(helm: str, *chart: str) -> float:
    started = time.monotonic()
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    command = [str(binary(helm)), "template", "run", *chart]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.monotonic() - started


def _start() -> float:
    lifecycle.down()
    started = time.monotonic()
    lifecycle.up()
    return time.monotonic() - started


def _images_per_second(framework: str, workers: int) -> float:
    values = f"framework={framework},image.repository=distrain/{framework},workers.gpus=0,workers.replicas={workers}"
    _helm("install", "run", str(CHART), "--set", f"{values},trainer.model=mnist,trainer.steps={STEPS}")
    wait_until("the run", lambda: TOTAL in _logs(), seconds=300, pause=1)
    rate = float(_logs().partition(TOTAL)[2].split()[0])
    _helm("uninstall", "run", "--wait")
    wait_until("the pods' end", lambda: not client.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name"), pause=1)
    return rate


def _logs() -> str:
    """Return the logs of all pods, or "" while a pod has not started."""
    try:
        return client.kubectl("-n", NAMESPACE, "logs", "-l", "app.kubernetes.io/instance=run", "--tail=-1")
    except LabError:
        return ""


def _helm(*arguments: str) -> None:
    command = [str(binary("helm4")), *arguments, "--namespace", NAMESPACE, "--kubeconfig", str(KUBECONFIG)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
