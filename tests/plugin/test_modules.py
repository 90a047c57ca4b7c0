"""Test that no module or folder is too large to read."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from lab.paths import REPOSITORY


def test_no_module_is_long() -> None:
    lines = {path: len((REPOSITORY / path).read_bytes().splitlines()) for path in _modules()}

    assert {path: number for path, number in lines.items() if number > 400} == {}


def test_no_folder_has_many_modules() -> None:
    modules = Counter(Path(path).parent for path in _modules() if not path.endswith("__init__.py"))

    assert {folder: number for folder, number in modules.items() if number > 20} == {}


def _modules() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.py"]
    found = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(found) > 500
    # If a file is deleted, git lists it until the deletion is committed.
    return [path for path in found if (REPOSITORY / path).exists()]
