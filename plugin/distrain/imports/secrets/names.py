"""Distinguish names and ordinary values from texts that may be credentials."""

from __future__ import annotations

import re

PARTS = re.compile(r"[A-Za-z0-9]+")
# A part of a name, such as terminationGracePeriodSeconds or app.kubernetes.io/name.
OF_NAME = re.compile(r"[A-Za-z]{1,40}\d{0,4}|[A-Za-z0-9]{1,12}")
# A part of a plain value: a word that may end with a number, a number with its unit, a version, a duration. Most
# passwords are longer, or have digits between their letters.
OF_VALUE = re.compile(
    r"[A-Za-z0-9]{1,5}|[A-Za-z]{1,20}\d{0,4}|\d{1,20}[A-Za-z]{0,3}|v\d{1,2}(?:alpha|beta)\d{1,2}|(?:\d{1,4}[a-z]){2,4}"
)


def has_parts(words: str, pattern: re.Pattern[str]) -> bool:
    """Split a text into runs of letters and digits, and tell whether each run matches the pattern."""
    return all(map(pattern.fullmatch, PARTS.findall(words)))
