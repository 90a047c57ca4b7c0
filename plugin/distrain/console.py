"""What a user sees: answers on stdout, everything else on stderr. Only this module prints."""

from __future__ import annotations

import sys


def answer(text: str) -> None:
    """Print a command's result."""
    print(text, flush=True)


def say(line: str) -> None:
    """Tell the user something beside the result."""
    print(f"distrain: {line}", file=sys.stderr, flush=True)
