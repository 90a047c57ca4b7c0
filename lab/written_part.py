"""Replace the part of a Markdown page that is generated, between two comments."""

from __future__ import annotations

END = "<!-- end -->\n"


def with_part(page: str, begin: str, part: str) -> str:
    """Return the page with the text `part` between the comment `begin` and the END after it."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    return f"{before}{begin}{part}{END}{after}"
