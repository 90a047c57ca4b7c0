"""What a user sees: answers on stdout, everything else on stderr. Only this module prints."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

# Where Kubernetes takes a container's termination message from.
TERMINATION_LOG = Path("/dev/termination-log")


def answer(text: str) -> None:
    """Print a command's result."""
    print(text, flush=True)


def say(line: str) -> None:
    """Tell the user something beside the result."""
    print(f"distrain: {line}", file=sys.stderr, flush=True)


def leave(line: str) -> None:
    """Make a line the termination message of the pod that we run in."""
    # Not created: outside Kubernetes it is missing and nobody looks for it.
    with contextlib.suppress(OSError), TERMINATION_LOG.open("r+", encoding="utf-8") as log:
        log.write(line)
        log.truncate()


def can_ask() -> bool:
    """Tell whether somebody sits at a terminal to answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def agrees(question: str) -> bool:
    """Ask, and tell whether the answer is yes."""
    print(f"distrain: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
