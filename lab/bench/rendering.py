"""Measure how long `helm template` takes for a job.

The bench compares this time with two other charts: a chart with one ConfigMap, and distrain's chart with a schema that
allows everything.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.builds.golang import binary
from lab.paths import CHART, REPOSITORY

PAIRS = 20
# The most time that `helm template` may take with the chart's schema, as a multiple of its time with a schema that
# allows everything.
LIMIT = 1.15
EMPTY_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: small}}\n"
VALUES = REPOSITORY / "values" / "vgg16.yaml"


def main() -> int:
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        small, without = _small(Path(folder, "small")), _without_schema(Path(folder, "distrain"))
        for helm in ("helm3", "helm4"):
            to_small, to_without = _ratio(helm, small), _ratio(helm, without, "--values", str(VALUES))
            print(
                f"{helm} template: {to_small:.2f} x a chart of one ConfigMap, {to_without:.2f} x the chart with an "
                f"empty schema; at most {LIMIT} x (medians of {PAIRS} pairs)"
            )
            slow |= to_without > LIMIT
    return int(slow)


def _small(chart: Path) -> Path:
    (chart / "templates").mkdir(parents=True)
    (chart / "templates" / "map.yaml").write_text(EMPTY_MAP, encoding="utf-8")
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: small, version: 0.1.0}\n", encoding="utf-8")
    return chart


def _without_schema(chart: Path) -> Path:
    shutil.copytree(CHART, chart)
    (chart / "values.schema.json").write_text("{}", encoding="utf-8")
    return chart


def _ratio(helm: str, other: Path, *flags: str) -> float:
    """Time `helm template` with distrain's chart and with the other chart in turn. Return the median ratio."""
    ours = [str(CHART), "--values", str(VALUES)]
    return statistics.median(_seconds(helm, *ours) / _seconds(helm, str(other), *flags) for _ in range(PAIRS))


def _seconds(helm: str, *chart: str) -> float:
    started = time.monotonic()
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    command = [str(binary(helm)), "template", "run", *chart]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
