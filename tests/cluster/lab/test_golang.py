"""Test that a Go program is built only once when two processes need it at the same time."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.builds import golang


def test_program_that_two_need_at_once_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        time.sleep(0.2)  # Meanwhile the other thread reaches the lock.
        built.append(unfinished := Path(arguments[arguments.index("-o") + 1]))
        unfinished.write_text("a program")
        return subprocess.CompletedProcess(arguments, 0)

    monkeypatch.setattr(golang, "CACHE_DIR", tmp_path)
    monkeypatch.setattr(golang, "run", run)
    with ThreadPoolExecutor(2) as both:
        found = [*both.map(golang.binary, ["helm4", "helm4"])]

    assert len(built) == 1
    assert [path.read_text() for path in found] == ["a program"] * 2
