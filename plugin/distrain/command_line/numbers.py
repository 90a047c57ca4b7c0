"""Define the types of arguments that are numbers or durations."""

from __future__ import annotations

import argparse
import re

# Seconds per unit of a duration in Go's syntax.
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9}
DURATION = r"([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|m|s|us|\u00b5s|\u03bcs|ns)"
# Go's longest duration is 292 years.
LONGEST_SECONDS = 2.0**63 / 1e9
# Python refuses to parse a number with thousands of digits, and no count here is that large.
MOST_DIGITS = 18


def count(number: str, of: str = "GPUs", example: int = 8, least: int = 1) -> int:
    """Parse a number of GPUs, or of the things that `of` names, that is at least `least`."""
    if not number.isdecimal() or len(number) > MOST_DIGITS or int(number) < least:
        words = f"give {least} or more, such as {example}"
        raise argparse.ArgumentTypeError(f'"{number}" is no number of {of}; {words}')
    return int(number)


def total(number: str) -> int:
    return count(number, least=0)


def workers(number: str) -> int:
    return count(number, "workers", 4)


def revisions(number: str) -> int:
    return count(number, "revisions (0 keeps all)", 10, least=0)


def lines(number: str) -> int:
    return count(number, "lines", 100, least=0)


def seconds(duration: str) -> float:
    """Parse a duration in Go's syntax, such as 90s, 1.5h or 1h30m. A number without a unit means seconds."""
    written = f"{duration}s" if re.fullmatch("[0-9]+", duration) else duration.removeprefix("+")
    parts = re.findall(DURATION, written)
    found = sum(float(number) * UNITS[unit] for number, unit in parts)
    if not parts or re.sub(DURATION, "", written) or found > LONGEST_SECONDS:
        raise argparse.ArgumentTypeError(f'"{duration}" is no duration; give one such as 90s, 10m or 1h30m')
    return found
