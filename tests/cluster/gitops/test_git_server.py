"""Test the lab's git server with the git client, on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gitops import git, git_http
from lab.gitops.git import Repository
from lab.waiting import free_port, wait_for_port


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Serve an empty repository on loopback."""
    port, root = free_port(), tmp_path / "git"
    root.mkdir()
    monkeypatch.setattr(git, "ROOT", root)
    monkeypatch.setattr(git, "ADDRESS", f"http://127.0.0.1:{port}")
    monkeypatch.setattr(git, "serve", lambda: None)
    server = subprocess.Popen([sys.executable, git_http.__file__, root, "127.0.0.1", str(port)])
    wait_for_port("127.0.0.1", port)
    yield Repository.new("team")
    server.kill()
    server.wait()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def test_client_reads_each_commit(repository: Repository, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    first = repository.commit({"runs/run1.yaml": "workers: {replicas: 2}\n"})
    _git("clone", "--quiet", repository.url, str(clone))

    second = repository.commit({"runs/run1.yaml": "workers: {replicas: 3}\n"})
    _git("-C", str(clone), "pull", "--quiet")

    assert _git("-C", str(clone), "log", "--format=%H", "main").split() == [second, first]
    assert (clone / "runs" / "run1.yaml").read_text() == "workers: {replicas: 3}\n"


def test_client_cannot_push(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"file": "one"})
    clone = tmp_path / "clone"
    _git("clone", "--quiet", repository.url, str(clone))

    pushed = subprocess.run(
        ["git", "-C", str(clone), "push", "origin", "main:another"], capture_output=True, text=True, check=False
    )

    assert pushed.returncode != 0
    assert _git("-C", str(repository.folder), "branch", "--format=%(refname:short)").split() == ["main"]


def test_repository_of_a_name_that_was_used_before_is_empty(repository: Repository) -> None:
    repository.commit({"old": "text"})

    again = Repository.new(repository.name)
    again.commit({"new": "text"})

    assert _git("ls-remote", again.url).count("\n") == 2
    assert _git("-C", str(again.folder), "ls-files").split() == ["new"]
