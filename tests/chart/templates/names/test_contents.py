"""Test that every job has the same content hash as in the released chart.

A different hash would make a chart upgrade replace running jobs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tests.chart.kinds import KINDS
from tests.chart.rendering import GOLDEN, VALUES, render, set_arguments

CONTENTS = GOLDEN / "contents.yaml"
UPDATE = "DISTRAIN_UPDATE_GOLDEN=1 make test-chart PYTEST_ARGS='-k test_contents -n 0'"
HEAD = f"# Hashes of what a running job cannot take over, written by {UPDATE}\n"
# The chart delivers the trainer to the job of this values file, so every change of the trainer replaces the job. So the
# test leaves this values file out.
DELIVERED = "stock-pytorch.yaml"
FILES = [path for path in sorted(VALUES.glob("*.yaml")) if path.name != DELIVERED]
JOBS = {
    **{f"values/{path.name}": ("--values", str(path)) for path in FILES},
    **{kind: tuple(set_arguments(*values)) for kind, values in KINDS.items()},
}


@pytest.mark.parametrize("job", JOBS)
def test_chart_alone_replaces_no_running_job(helm3: Path, job: str) -> None:
    # If image.tag were empty, a new appVersion would mean another image, and so another hash. So the test sets a fixed
    # tag.
    content = render(helm3, *JOBS[job], "--set", "image.tag=tested").content

    if os.environ.get("DISTRAIN_UPDATE_GOLDEN"):
        known = yaml.safe_load(CONTENTS.read_text(encoding="utf-8")) if CONTENTS.exists() else {}
        told = {name: content if name == job else known.get(name, "") for name in JOBS}
        CONTENTS.write_text(HEAD + yaml.safe_dump(told, sort_keys=False), encoding="utf-8")

    assert content == yaml.safe_load(CONTENTS.read_text(encoding="utf-8"))[job], (
        "the templates now render another job for the same values, so that an upgrade of the chart alone would end and "
        f"restart every such run. Render a new field only for a new value. A change that is meant: {UPDATE}"
    )
