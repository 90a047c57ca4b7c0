"""Compute the anchors of a page: the names to which links can lead."""

from __future__ import annotations

import re


def anchor(title: str) -> str:
    """Return the anchor that GitHub gives a heading: lower case, without punctuation, and with - for each space."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
