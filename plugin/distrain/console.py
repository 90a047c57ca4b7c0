"""What a user sees: answers on stdout, everything else on stderr. Only this module prints."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from distrain.errors import UnwrittenError, unwritten

# Where Kubernetes takes a container's termination message from.
TERMINATION_LOG = Path("/dev/termination-log")
# What `tell` could not print.
_lost: list[UnwrittenError] = []


def open_streams() -> None:
    """Open /dev/null in place of a standard stream that is closed.

    A connection to the cluster would take its number otherwise, and what a program of ours prints would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def answer(text: str) -> None:
    """Print a command's result; raises UnwrittenError where stdout is closed or full."""
    try:
        print(text, flush=True)
    except (OSError, ValueError) as error:
        raise unwritten(error) from error


def tell(text: str, otherwise: str) -> None:
    """Print what goes with a change to the cluster, or say `otherwise`: no change stops or is undone for its output.

    `finish` then raises the error.
    """
    try:
        answer(text)
    except UnwrittenError as error:
        _lost.append(error)
        say(otherwise)


def finish() -> None:
    """Raise UnwrittenError if `tell` could not print something."""
    lost, _lost[:] = _lost[:], []
    if lost:
        raise lost[0]


def say(line: str) -> None:
    """Tell the user something beside the result, if stderr takes it."""
    if sys.stderr is None:
        # print() would take stdout for it.
        return
    try:
        print(f"distrain: {line}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        # Nobody listens; that is no reason to stop.
        return


def leave(line: str) -> None:
    """Make a line the termination message of the pod that we run in."""
    # Not created: outside Kubernetes it is missing and nobody looks for it.
    with contextlib.suppress(OSError), TERMINATION_LOG.open("r+", encoding="utf-8") as log:
        log.write(line)
        log.truncate()


def can_ask() -> bool:
    """Tell whether somebody sits at a terminal to answer."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None


def agrees(question: str) -> bool:
    """Ask, and tell whether the answer is yes; it is no where the question cannot be printed."""
    try:
        print(f"distrain: {question} [y/N] ", end="", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return False
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def close() -> None:
    """Drop what stdout and stderr do not take: Python would complain of it at its end, and exit with 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
