"""Read the flags for values as Helm reads them, and each file that can be read only once.

A command runs Helm several times with the same flags. A pipe is empty after it was read once, and a URL may return
something else later. So the plugin reads the content of a pipe or URL once, and Helm reads a copy of the content.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from distrain import files, temporary
from distrain.errors import HelmError, ValuesError, reason
from distrain.helm.program import Source

Fetch = Callable[[str], bytes]
# The comma that separates two parts of --set-file; a comma after a backslash belongs to a part.
COMMA = re.compile(r"(?<!\\),")
ESCAPED = re.compile(r"\\(.)")


def source(chart: Path, given: Sequence[tuple[str, str]], fetch: Fetch) -> Source:
    """Return the chart with its flags for values, and the content of stdin if a flag names it.

    `fetch` returns the content of a URL.

    Raise ValuesError with a line for each file that cannot be read.
    """
    flags = [*_one_file_each(given)]
    stdin = _stdin() if ("--values", "-") in flags else None
    words: list[str] = []
    mistakes: list[str] = []
    for flag, value in flags:
        try:
            words += [flag, _readable(flag, value, fetch)]
        except ValuesError as error:
            mistakes += error.messages
    if mistakes:
        raise ValuesError(*mistakes)
    return Source(chart, tuple(words), stdin)


def repeatable(found: Source) -> list[tuple[str, str]]:
    """Return the source's flags, with - replaced by the path of a copy of stdin.

    Helm can read the copy several times, but stdin only once.
    """
    stdin = temporary.copy("-", found.stdin) if found.stdin is not None else ""
    flags = zip(found.flags[::2], found.flags[1::2], strict=True)
    return [(flag, stdin if (flag, value) == ("--values", "-") else value) for flag, value in flags]


def _one_file_each(flags: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the flags one by one. Split a list of values files, which Helm reads as a line of CSV."""
    for flag, value in flags:
        if flag != "--values":
            yield flag, value
        else:
            yield from ((flag, file) for file in _listed(value))


def _listed(value: str) -> list[str]:
    if "," not in value and '"' not in value:
        return [value] if value else []
    import csv

    try:
        listed = next(csv.reader([value], strict=True))
    except csv.Error as error:
        raise ValuesError(f"--values: {value} is not a list of files: {error}; write a.yaml,b.yaml") from error
    if "" in listed:
        raise ValuesError(f"--values: {value} has a comma without a file name beside it; write a.yaml,b.yaml")
    return listed


def _readable(flag: str, value: str, fetch: Fetch) -> str:
    """Return the value of a flag. Replace each file that can be read only once by a copy."""
    if flag == "--values":
        return value if value == "-" else _copied(flag, value, fetch)
    if flag == "--set-file":
        return ",".join(_with_copy(flag, part, fetch) for part in COMMA.split(value))
    return value


def _with_copy(flag: str, part: str, fetch: Fetch) -> str:
    key, _, escaped = part.partition("=")
    file = ESCAPED.sub(r"\1", escaped)
    copy = _copied(flag, file, fetch) if file else file
    return part if copy == file else f"{key}={copy}"


def _copied(flag: str, file: str, fetch: Fetch) -> str:
    """Return the path of a copy of the file, or the file's own path if Helm can read the file several times."""
    if "://" not in file and file != "-" and _is_repeatable(file):
        return file
    try:
        content = _fetched(flag, file, fetch) if "://" in file else files.read(file, files.VALUES)
    except (OSError, ValueError) as error:
        raise ValuesError(f"{flag}: {file} cannot be read: {reason(error)}; name another file") from error
    return temporary.copy("stdin" if file == "-" else file, content)


def _fetched(flag: str, url: str, fetch: Fetch) -> bytes:
    """Return what the URL returns. Raise ValuesError with the last part of Helm's message, which is the cause."""
    try:
        return fetch(url)
    except HelmError as error:
        why = reason(error).rpartition(": ")[2]
        step = "correct the URL, or download the file and name it here"
        raise ValuesError(f"{flag}: {url} cannot be fetched: {why}; {step}") from error


def _is_repeatable(file: str) -> bool:
    """Tell whether Helm can read a file several times."""
    if "," in file or '"' in file:
        # Helm would read a path with such characters as a list.
        return False
    try:
        found = os.stat(file)
        return stat.S_ISREG(found.st_mode) and found.st_size <= files.VALUES and os.access(file, os.R_OK)
    except (OSError, ValueError):
        return False


def _stdin() -> bytes:
    try:
        return files.read("-", files.VALUES)
    except OSError as error:
        raise ValuesError(f"--values: stdin cannot be read: {reason(error)}; name a file") from error
