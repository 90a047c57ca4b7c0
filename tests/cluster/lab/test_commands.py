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
    nothing = SimpleNamespace(PROGRAMS=(), CONTROLLERS=(), start=lambda: None)
    monkeypatch.setattr(commands, "GITOPS", {"flux": nothing})
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: True, up=lambda _: None, BIN_DIR="b"))
    monkeypatch.setattr(commands, "golang", SimpleNamespace(build=lambda _: None))

    commands.up(gitops="flux")

    shown = capsys.readouterr().out
    assert shown.startswith("  flux ... ")
    assert "the repositories in /var/lib/distrain-lab/git are at http://10.213.0.2:7080/NAME" in shown


def test_start_of_a_gitops_tool_ends_the_other_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []

    def tool(name: str) -> SimpleNamespace:
        ways = {"start": lambda: done.append(f"start {name}"), "stop": lambda: done.append(f"stop {name}")}
        return SimpleNamespace(PROGRAMS=(), CONTROLLERS=(name,), **ways)

    monkeypatch.setattr(commands, "GITOPS", {name: tool(name) for name in ("argocd", "flux", "other")})
    monkeypatch.setattr(commands, "lifecycle", SimpleNamespace(is_ready=lambda: True, up=lambda _: None, BIN_DIR="b"))
    monkeypatch.setattr(commands, "golang", SimpleNamespace(build=lambda _: None))
    monkeypatch.setattr(commands, "namespaces", SimpleNamespace(is_running=lambda name: name in ("argocd", "flux")))

    commands.up(gitops="flux")

    assert done == ["stop argocd", "start flux"]
    assert capsys.readouterr().out.startswith("  argocd ends; its objects in the cluster and the jobs")
