"""Test that `check` prints warnings in addition to its verdict, and that they do not change the verdict."""

from __future__ import annotations

import json
from pathlib import Path

from tests.plugin.check.judging import list_of
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import node
from tests.plugin.program import Run

VALUES = ("--set", "workers.gpus=4,workers.shm=512Mi")
FOUND = "leaves 512Mi for /dev/shm, less than the 1Gi of NCCL's guide"
WARNING = f"workers.shm: {FOUND}; set it to 4Gi or more, 1Gi for each rank"


def test_check_of_a_cluster_warns(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", *VALUES)

    assert (outcome.code, outcome.err) == (0, "")
    assert f"warning: {WARNING}" in " ".join(outcome.out.split())


def test_check_of_a_snapshot_warns_in_json_and_markdown(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(list_of({**node("a", gpu="8"), "kind": "Node"}), encoding="utf-8")

    outcome = run("check", *VALUES, "--snapshot", str(file), "-o", "json")
    markdown = run("check", *VALUES, "--snapshot", str(file), "-o", "markdown")

    answer = json.loads(outcome.out)
    (warning,) = answer["warnings"]
    assert (answer["verdict"], f"{warning['path']}: {warning['found']}; {warning['better']}") == ("fits", WARNING)
    assert "- **Warning:** workers.shm: leaves 512Mi" in markdown.out


def test_check_warns_of_what_is_derived(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "--set", "gpus=8,workers.shm=512Mi")

    assert "set it to 8Gi or more" in " ".join(outcome.out.split())


def test_check_of_a_snapshot_warns_of_what_is_derived(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(list_of({**node("a", gpu="8"), "kind": "Node"}), encoding="utf-8")

    outcome = run("check", "--set", "gpus=8,workers.shm=512Mi", "--snapshot", str(file))

    assert "set it to 8Gi or more" in " ".join(outcome.out.split())
