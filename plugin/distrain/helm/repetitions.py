"""Name the keys that a values file has twice."""

from __future__ import annotations

from pathlib import Path

from yaml import YAMLError

from distrain import temporary
from distrain.helm.program import Source
from distrain.yaml.repeated_keys import mistakes


def repetitions(source: Source) -> list[str]:
    """Return a line per key that a values file has twice."""
    return [
        f"--values: {temporary.with_names(path)}: {mistake}"
        for path in dict.fromkeys(source.files)
        for mistake in _repeated_in(path, source.stdin)
    ]


def _repeated_in(path: str, stdin: bytes | None) -> list[str]:
    """Return the repeated keys of a values file; none if it cannot be read, which Helm reports."""
    if path != "-" and not Path(path).is_file():  # A second read of a FIFO would never end.
        return []
    try:
        return mistakes(((stdin or b"") if path == "-" else Path(path).read_bytes()).decode())
    except (OSError, UnicodeDecodeError, YAMLError):
        return []
