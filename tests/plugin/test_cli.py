"""Test what all commands have in common: arguments, the choice of Helm, start and signals."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distrain import __version__, cli
from distrain.command_line.parser import parser
from distrain.helm import render
from lab.paths import REPOSITORY


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["install"],
            "NAME: is missing: name of the new release; write it, or add --generate-name; "
            "see `distrain install --help`",
            id="no-name",
        ),
        pytest.param(
            ["check", "--nope"], "--nope: there is no such flag; see `distrain check --help`", id="unknown-flag"
        ),
        pytest.param(
            ["install", "--hepl"],
            "--hepl: there is no such flag; did you mean --help?",
            id="unknown-flag-and-no-name",
        ),
        pytest.param(
            ["rescale", "run1", "--replicas=3"],
            "--replicas: there is no such flag; see `distrain rescale --help`",
            id="unknown-flag-and-no-size",
        ),
        pytest.param(
            ["rescale", "run1"],
            "--gpus or --workers: is missing; see `distrain rescale --help`",
            id="no-size",
        ),
        pytest.param(
            ["install", "Run_1"],
            'NAME: "Run_1" is not a valid release name: use a-z, 0-9 and -, 53 characters at most; '
            "see `distrain install --help`",
            id="name",
        ),
        pytest.param(
            ["install", "run1", "--timeout", "soon"],
            '--timeout: "soon" is no duration; give one such as 90s, 10m or 1h30m; see `distrain install --help`',
            id="duration",
        ),
        pytest.param(
            ["status", "run1", "--wait", "--timeout", "-5s"],
            '--timeout: "-5s" is no duration; give one such as 90s, 10m or 1h30m; see `distrain status --help`',
            id="negative-duration",
        ),
        pytest.param(
            ["logs", "run1", "--tail", "-5"],
            '--tail: "-5" is no number of lines; give 0 or more, such as 100; see `distrain logs --help`',
            id="negative-number",
        ),
    ],
)
def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert cli.run(arguments) == 2
    assert capsys.readouterr().err == f"distrain: {words}\n"


def test_longest_name_that_helm_accepts_is_accepted() -> None:
    assert parser().parse_args(["install", "a" * 53]).name == "a" * 53
    assert cli.run(["install", "a" * 54]) == 2


def test_helm_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert cli.run(["check"]) == 4
    assert capsys.readouterr().err == (
        'distrain: helm: "helm" is not on the PATH; install Helm 3.17.0 or newer, or set HELM_BIN\n'
    )


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        pytest.param("v3.9.4", "is 3.9.4; distrain needs 3.17.0 or newer", id="too-old"),
        pytest.param("v3.21", "did not print its version (3.21 is not valid SemVer string)", id="no-version"),
    ],
)
def test_helm_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, printed: str, words: str
) -> None:
    old = tmp_path / "helm"
    old.write_text(f"#!/bin/sh\nprintf {printed}\n")
    old.chmod(0o755)
    monkeypatch.setenv("HELM_BIN", str(old))

    assert cli.run(["check"]) == 4
    assert capsys.readouterr().err.startswith(f"distrain: helm: {old} {words}")


def test_helm_that_fails_without_a_word_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = shutil.which("false")
    monkeypatch.setenv("HELM_BIN", str(silent))

    assert cli.run(["check"]) == 4
    assert f"distrain: helm: {silent} did not print its version" in capsys.readouterr().err


def test_ctrl_c_says_that_nothing_was_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(render, "find", _interrupted)

    assert cli.run(["install", "run1"]) == 130
    assert capsys.readouterr().err == "distrain: interrupted; nothing was changed\n"


def _interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "module",
    [pytest.param("distrain.cli", id="loading"), pytest.param("distrain.commands.check", id="at work")],
)
def test_ctrl_c_within_text_that_exec_runs_is_the_same_exit_code(tmp_path: Path, module: str) -> None:
    # namedtuple and dataclass create code as text and execute it with exec(). If KeyboardInterrupt is raised while such
    # text is executed, Python ends by SIGINT, even if the program has handled the exception.
    before = f"""
import importlib.abc, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == {module!r}:
            exec("raise KeyboardInterrupt")
sys.meta_path.insert(0, Interrupting())
"""
    (tmp_path / "sitecustomize.py").write_text(before)
    environment = {"PYTHONPATH": f"{tmp_path}:{REPOSITORY / 'plugin'}", "PATH": "/usr/bin"}

    ended = subprocess.run([sys.executable, "-m", "distrain", "check"], env=environment)

    assert ended.returncode == 130


@pytest.mark.parametrize(
    "program",
    [pytest.param(["-m", "distrain"], id="module"), pytest.param([str(REPOSITORY / "plugin")], id="plugin-folder")],
)
def test_module_and_plugin_folder_are_the_same_program(program: list[str]) -> None:
    environment = {"PYTHONPATH": str(REPOSITORY / "plugin"), "PATH": "/usr/bin"}

    printed = subprocess.run(
        [sys.executable, *program, "--version"], env=environment, capture_output=True, text=True, check=True
    )

    assert printed.stdout == f"{__version__}\n"


def test_answer_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    manifest = tmp_path / "job.yaml"
    manifest.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: ä-€}\nspec: {containers: [{name: a, image: a}]}\n")
    environment = {"PYTHONPATH": str(REPOSITORY / "plugin"), "PATH": "/usr/bin", "PYTHONIOENCODING": "latin-1"}
    command = ["check", "--manifest", str(manifest), "--offline", "--assume-nodes", "1x8"]

    ended = subprocess.run([sys.executable, "-m", "distrain", *command], env=environment, capture_output=True)

    assert ended.returncode == 11
    assert "ä-€" in ended.stdout.decode()
