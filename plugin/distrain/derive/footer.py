"""The comment at the end of a derived file that tells the figures of the run."""

from __future__ import annotations

from collections.abc import Sequence

from distrain.derive.figures import Figure

HEAD = "# Derived by `helm distrain derive` for this size. Nothing below is a value."
MARGIN = "#   "
WIDTH = 18


def with_footer(body: str, figures: Sequence[Figure]) -> str:
    return "\n".join([body.rstrip("\n"), "", HEAD, *map(_line, figures), ""]).lstrip("\n")


def without_footer(text: str) -> str:
    """Return the file without the figures of an earlier run; what the user wrote around them stays."""
    kept: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.rstrip() == HEAD:
            inside = True
        elif not (inside and line.startswith(MARGIN)):
            inside = False
            kept.append(line)
    return "\n".join(kept)


def stale_lines(text: str, figures: Sequence[Figure]) -> list[str]:
    """Say which figures the text has not, or has otherwise; one that another size had is worth a line as well."""
    found = [line for line in text.split("\n") if line.startswith(MARGIN)] if HEAD in text else []
    by_label = {line[len(MARGIN) :][:WIDTH].strip(): line for line in found}
    lines = {label: _line((label, words)) for label, words in figures}
    return [
        f"comment {label!r}: found {_words(by_label.get(label))}, expected {_words(lines.get(label))}; "
        "run `helm distrain derive` with this file and keep what it prints"
        for label in (lines | by_label)
        if by_label.get(label) != lines.get(label)
    ]


def _line(figure: Figure) -> str:
    return f"{MARGIN}{figure[0]:<{WIDTH}}{figure[1]}"


def _words(line: str | None) -> str:
    return f'"{line[len(MARGIN) + WIDTH :]}"' if line else "nothing"
