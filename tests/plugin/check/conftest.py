"""Define the fixtures of the tests of check."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from distrain import cli
from tests.plugin.check.judging import Check, kind, list_of
from tests.plugin.objects import Object, mpi_job, node, pod


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Check:
    """Return a function that runs `check` on an MPIJob's manifest."""
    manifest = tmp_path / "job.yaml"

    def run(*arguments: str, job: Object | None = None) -> tuple[int, str, str]:
        manifest.write_text(yaml.safe_dump(job or mpi_job()))
        code = cli.run(["check", "--manifest", str(manifest), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    items = [*kind("Node", node("a", gpu="8", labels={"zone": "1"})), *kind("Pod", pod("p", on="a", gpu="2"))]
    path = tmp_path / "nodes.json"
    path.write_text(list_of(*items))
    return path
