"""Provide a git repository with a run on main, and a snapshot of a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.builds import golang
from tests.plugin.ci.planned import TWO, Repository
from tests.plugin.objects import node

# Two nodes with 4 GPUs each, in the format of `kubectl get -o json`.
NODES = [{"apiVersion": "v1", "kind": "Node", **node(name, gpu="4")} for name in "ab"]
SNAPSHOT = {"apiVersion": "v1", "kind": "List", "items": NODES}


@pytest.fixture
def repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], signals: None
) -> Repository:
    """Return a repository with the run `run1` on main, and the branch `change` checked out."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Jane")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "jane@example.com")
    monkeypatch.setenv("HELM_BIN", str(golang.binary("helm4")))
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    found = Repository(tmp_path / "team", capsys)
    found.folder.mkdir()
    found.git("init", "--initial-branch", "main")
    found.commit(runs__run1=TWO)
    found.git("checkout", "-b", "change")
    return found


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    (tmp_path / "nodes.json").write_text(json.dumps(SNAPSHOT))
    return str(tmp_path / "nodes.json")
