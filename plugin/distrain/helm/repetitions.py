"""Name the keys that a values file has twice."""

from __future__ import annotations

from pathlib import Path

from yaml import YAMLError

from distrain import temporary
from distrain.helm.program import Source
from distrain.yaml.repeated_keys import repeated_keys


def repetitions(source: Source) -> list[str]:
    """Return a line per key that a values file has twice."""
    found = [(path, each) for path in dict.fromkeys(source.files) for each in _repeated_in(path, source.stdin)]
    return [
        f"--values: {temporary.with_names(path)}: {key} appears twice, in {_lines(first, second)}; remove one of them"
        for path, (key, first, second) in found
    ]


def _lines(first: int, second: int) -> str:
    return f"line {first}" if first == second else f"lines {first} and {second}"


def _repeated_in(path: str, stdin: bytes | None) -> list[tuple[str, int, int]]:
    """Return the repeated keys of a values file; none if it cannot be read, which Helm reports."""
    if path != "-" and not Path(path).is_file():  # A second read of a FIFO would never end.
        return []
    try:
        return [*repeated_keys(((stdin or b"") if path == "-" else Path(path).read_bytes()).decode())]
    except (OSError, UnicodeDecodeError, YAMLError):
        return []
