"""Replace the generated part of a page: the text between two Markdown comments."""

from __future__ import annotations

END = "<!-- end -->\n"


def with_part(page: str, begin: str, part: str) -> str:
    """Return the page with `part` between the comment `begin` and the next END."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}{part}{END}{after}"
