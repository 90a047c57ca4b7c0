"""Name the places of a page that a link can lead to."""

from __future__ import annotations

import re


def anchor(title: str) -> str:
    """Return the anchor that GitHub gives to a title: lower case, without punctuation, with - for each space."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
