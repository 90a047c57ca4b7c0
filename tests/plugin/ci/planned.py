"""Run docs/ci/plan_changes.py in a git repository with a team's runs."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from tests.plugin.program import called

SCRIPT = REPOSITORY / "docs" / "ci" / "plan_changes.py"
# When the script starts a program of this name, the tests run the plugin in their own process instead.
IN_PROCESS = "distrain"
# The values of one run, with 2 workers and with 4 workers.
TWO = "workers: {replicas: 2, gpus: 4}\n"
FOUR = "workers: {replicas: 4, gpus: 4}\n"


@dataclass(frozen=True)
class Planned:
    code: int
    out: str
    err: str

    @property
    def heads(self) -> list[str]:
        """Return the headings in the script's output. The plan of each run begins with a heading."""
        return [line.removeprefix("### ") for line in self.out.splitlines() if line.startswith("### ")]


@dataclass(frozen=True)
class Repository:
    """A git repository with the runs of a team, on the branch `main`."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    def commit(self, **files: str | None) -> None:
        """Write the values files of runs and commit them.

        If the content of a file is None, the file is deleted. The name of a file in `files` contains __ instead of each
        slash.
        """
        for name, text in files.items():
            path = self.folder / f"{name.replace('__', '/')}.yaml"
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--allow-empty", "--message", "a commit")

    def plan(self, *flags: str, base: str = "main", distrain: str = IN_PROCESS) -> Planned:
        words = [str(SCRIPT), "--base", base, "--distrain", distrain, *flags]
        if distrain != IN_PROCESS:
            command = [sys.executable, *words]
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
            return Planned(done.returncode, done.stdout, done.stderr)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", words)
            patch.setattr(subprocess, "run", functools.partial(self._run, subprocess.run))
            code = _script().main()
        printed = self.capsys.readouterr()
        return Planned(code, printed.out, printed.err)

    def _run(self, run: Callable[..., Any], command: list[str], **options: Any) -> Any:
        """If the command is the plugin, run it in this process. Start any other program with the function `run`."""
        if command[0] != IN_PROCESS:
            return run(command, **options)
        done = called(self.capsys, *command[1:])
        return subprocess.CompletedProcess(command, done.code, done.out, done.err)


@functools.cache
def _script() -> Any:
    """Import the script as a module."""
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # The script's dataclasses look up the script's module in sys.modules.
    sys.modules[SCRIPT.stem] = module
    spec.loader.exec_module(module)
    return module
