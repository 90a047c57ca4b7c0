"""Write words of a user into Markdown so that they stay words: a value must not become a link, a heading or a mention.

The result reads the same on GitHub, on GitLab and in CommonMark.
"""

from __future__ import annotations

import re

# A character with a meaning in CommonMark, or in the dialects of GitHub and GitLab.
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$!])")
# A word that GitHub or GitLab may turn into a link or a mention. A backslash does not prevent that, a code span does.
LINK = re.compile(r"[@#%^]|://|www\.", re.IGNORECASE)


def code(words: str) -> str:
    """Return a code span: in it no character has a meaning, and nobody is mentioned.

    The span's fence is longer than any run of backticks in the words.
    """
    words = " ".join(words.split()) or " "
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{padding}{words}{padding}{fence}"


def text(words: str) -> str:
    """Return words outside a code span, each special character escaped; a part in backticks becomes a code span."""
    parts = re.split(r"`([^`]*)`", " ".join(words.split()))
    return "".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(words: str) -> str:
    found = (code(word) if LINK.search(word) else SPECIAL.sub(r"\\\1", word) for word in words.split(" "))
    return " ".join(found)
