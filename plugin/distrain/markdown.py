"""Write a user's words into Markdown so that they remain words: no value may become a link, a heading or a mention.

The result looks the same on GitHub, on GitLab and in CommonMark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from distrain.redact import redact

# A character that has a meaning in CommonMark, or in the dialects of GitHub and GitLab.
SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$!])")
# A word that GitHub or GitLab may turn into a link or a mention. Only a code span prevents this; a backslash does not.
LINK = re.compile(r"[@#%^]|://|www\.", re.IGNORECASE)


def code(words: str) -> str:
    """Return a code span. In a code span no character has a special meaning, and nobody is mentioned.

    The span's fence is longer than any run of backticks in the words.
    """
    words = " ".join(words.split()) or " "
    longest = max((len(run) for run in re.findall("`+", words)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{padding}{words}{padding}{fence}"


def text(words: str) -> str:
    """Return words that are outside of a code span, with each special character escaped.

    A part in backticks becomes a code span.

    Secrets must be hidden before this, because they cannot be found any more when their characters are escaped.
    """
    parts = re.split(r"`([^`]*)`", " ".join(redact(words).split()))
    pieces = [piece for number, part in enumerate(parts) for piece in ([(True, part)] if number % 2 else _pieces(part))]
    # Join two adjacent code spans: a parser would read the backticks between them as one longer fence.
    joined = [(is_code, "".join(each for _, each in run)) for is_code, run in groupby(pieces, key=itemgetter(0))]
    return "".join(code(each) if is_code else SPECIAL.sub(r"\\\1", each) for is_code, each in joined)


def _pieces(words: str) -> Iterator[tuple[bool, str]]:
    """Yield words and spaces, each with a flag that tells whether it must be in a code span."""
    yield from ((bool(LINK.search(each)), each) for each in re.split("( )", words) if each)
