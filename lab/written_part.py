"""Replace the part of a page that a program writes: what stands between two comments of Markdown."""

from __future__ import annotations

END = "<!-- end -->\n"


def with_part(page: str, begin: str, part: str) -> str:
    """Return the page with this part between the comment `begin` and the END behind it."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}{part}{END}{after}"
