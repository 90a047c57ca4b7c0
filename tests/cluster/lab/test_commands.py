"""Test the commands behind the Makefile's targets, without a cluster."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from lab import __main__ as commands
from lab.paths import REPOSITORY

LISTED = "import sys, lab.__main__; print(*sorted({'sklearn', 'scipy', 'boto3'} & set(sys.modules)))"


def test_commands_of_the_cluster_load_no_library_of_the_demo() -> None:
    loaded = subprocess.run([sys.executable, "-c", LISTED], cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert loaded.stdout.split() == []


def test_start_of_a_gitops_tool_says_what_starts_and_where_git_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = SimpleNamespace(PROGRAMS=(), start=lambda: None)
    monkeypatch.setattr(commands, "GITOPS", {"flux": nothing})
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: True, up=lambda _: None, BIN_DIR="b"))
    monkeypatch.setattr(commands, "golang", SimpleNamespace(build=lambda _: None))

    commands.up(gitops="flux")

    shown = capsys.readouterr().out
    assert shown.startswith("  flux ... ")
    assert "the repositories in /var/lib/distrain-lab/git are at http://10.213.0.2:7080/NAME" in shown
