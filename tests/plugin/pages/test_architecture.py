"""Test that docs/architecture.md names only existing files and folders, and that its diagram is up to date."""

from __future__ import annotations

import re

import pytest
import yaml

from docs import picture
from lab.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = sorted(path.name for path in REPOSITORY.iterdir() if path.is_dir())
PATHS = [path for path in re.findall(r"`([\w.-]+/[\w./-]+)`", PAGE) if path.partition("/")[0] in FOLDERS]


@pytest.mark.parametrize("path", PATHS)
def test_page_names_what_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()


def test_picture_is_drawn_from_the_code() -> None:
    assert picture.document() == PAGE, "write it with `make docs`"


def test_picture_shows_every_kind_with_its_pods() -> None:
    kinds = [kind["name"] for kind in yaml.safe_load((REPOSITORY / "schemas" / "kinds.yaml").read_text())["kinds"]]
    text = picture.picture()

    assert sorted(picture.FORMS) == sorted(kinds)
    assert [kind for kind in kinds if f"subgraph {kind}\n" not in text] == []
    assert '"launcher: distrain-launch, mpirun"' in text
