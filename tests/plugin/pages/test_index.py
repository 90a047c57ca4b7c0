"""Test README.md's length, that docs/index.md lists every page, and that links between pages have a target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.plugin.pages.anchors import anchor

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^()\s]*)\)")
TITLE = re.compile(r"^#+ (.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return set(map(anchor, TITLE.findall(page.read_text(encoding="utf-8"))))


def test_readme_has_at_most_120_lines() -> None:
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 120


def test_index_lists_every_page() -> None:
    listed = LINK.findall((DOCS / "index.md").read_text(encoding="utf-8"))

    assert {page.name for page in DOCS.glob("*.md")} - {*listed} == {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []
