"""Measure how long `helm template` takes for a job, compared with a chart of one ConfigMap."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from lab.builds.golang import binary
from lab.paths import CHART, REPOSITORY

PAIRS = 20
EMPTY_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: small}}\n"


def main() -> None:
    for helm in ("helm3", "helm4"):
        print(f"{helm} template: {_ratio(helm):.2f} x a chart of one ConfigMap (median of {PAIRS} pairs)")


def _ratio(helm: str) -> float:
    """Return the median ratio of two times of `helm template`: for a job, and for a chart of one ConfigMap."""
    with tempfile.TemporaryDirectory() as folder:
        templates = Path(folder) / "templates"
        templates.mkdir()
        (templates / "map.yaml").write_text(EMPTY_MAP, encoding="utf-8")
        (Path(folder) / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 0.1.0}\n", encoding="utf-8")
        ours = [str(CHART), "--values", str(REPOSITORY / "values" / "vgg16.yaml")]
        return statistics.median(_seconds(helm, *ours) / _seconds(helm, folder) for _ in range(PAIRS))


def _seconds(helm: str, *chart: str) -> float:
    started = time.monotonic()
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    command = [str(binary(helm)), "template", "run", *chart]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.monotonic() - started
