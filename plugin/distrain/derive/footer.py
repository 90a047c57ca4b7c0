"""At the end of a derived file, a comment contains the run's figures. This module writes and reads the comment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distrain.derive.figures import Figure

HEAD = "# Derived by `helm distrain derive` for this size. Nothing below is a value."
MARGIN = "#   "
WIDTH = 18


def with_footer(body: str, figures: Sequence[Figure]) -> str:
    return "\n".join([body.rstrip("\n"), "", HEAD, *map(_line, figures), ""]).lstrip("\n")


def without_footer(text: str) -> str:
    """Return the file without its earlier footer. Lines that the user wrote before or after the footer stay."""
    kept, _ = _parted(text)
    return "\n".join(kept)


def stale_lines(text: str, figures: Sequence[Figure]) -> list[str]:
    """Return one message for each figure that is missing, that differs, or that no longer applies."""
    _, found = _parted(text)
    by_label = {line[len(MARGIN) :][:WIDTH].strip(): line for line in found}
    lines = {label: _line((label, words)) for label, words in figures}
    return [
        f"comment {label!r}: found {_words(by_label.get(label))}, expected {_words(lines.get(label))}; "
        "run `helm distrain derive` with this file and keep what it prints"
        for label in (lines | by_label)
        if by_label.get(label) != lines.get(label)
    ]


def _parted(text: str) -> tuple[list[str], list[str]]:
    """Return the file's lines outside the footer, and the footer's lines with figures.

    The footer begins with the line HEAD. That line is in neither of the two lists.
    """
    kept: list[str] = []
    figures: list[str] = []
    inside = False
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.rstrip() == HEAD:
            inside = True
        elif inside and line.startswith(MARGIN):
            figures.append(line)
        else:
            inside = False
            kept.append(line)
    return kept, figures


def _line(figure: Figure) -> str:
    return f"{MARGIN}{figure[0]:<{WIDTH}}{figure[1]}"


def _words(line: str | None) -> str:
    return f'"{line[len(MARGIN) + WIDTH :]}"' if line else "nothing"
