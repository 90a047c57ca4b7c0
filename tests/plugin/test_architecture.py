"""Test that docs/architecture.md names only files and folders that exist."""

from __future__ import annotations

import re

import pytest

from lab.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = sorted(path.name for path in REPOSITORY.iterdir() if path.is_dir())
PATHS = [path for path in re.findall(r"`([\w.-]+/[\w./-]+)`", PAGE) if path.partition("/")[0] in FOLDERS]


@pytest.mark.parametrize("path", PATHS)
def test_page_names_what_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()
