"""Measure how fast the trainer trains on the embedded Kubernetes, by framework and number of workers.

Two cores do the work of all workers, so the figures show the cost of distribution, not its benefit.
"""

from __future__ import annotations

import subprocess

from lab.builds import images
from lab.builds.golang import binary
from lab.cluster import client, lifecycle
from lab.errors import LabError
from lab.paths import CHART, KUBECONFIG
from lab.waiting import wait_until

NAMESPACE = "bench"
WORKERS = (1, 2, 4)
STEPS = 200
TOTAL = "total images/sec:"


def main() -> None:
    """Measure on a running cluster, and print a line per framework and number of workers."""
    lifecycle.prepare_namespace(NAMESPACE, "s3")
    for framework in images.FRAMEWORKS:
        client.load_image(images.trainer_image(framework))
        rates = {workers: _images_per_second(framework, workers) for workers in WORKERS}
        for workers, rate in rates.items():
            told = f"{workers} workers: {rate:8.0f} images/sec ({rate / rates[1]:.2f} x 1 worker)"
            print(f"{framework}, mnist, synthetic, {told}")


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
