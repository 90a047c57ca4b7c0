"""Name the keys that a values file has twice."""

from __future__ import annotations

from pathlib import Path

from yaml import YAMLError

from distrain import temporary
from distrain.helm.program import Source
from distrain.yaml.repeated_keys import mistakes


def repetitions(source: Source) -> list[str]:
    """Return one line for each key that a values file contains twice."""
    return [
        f"--values: {temporary.with_names(path)}: {mistake}"
        for path in dict.fromkeys(source.files)
        for mistake in _repeated_in(path, source.stdin)
    ]


def _repeated_in(path: str, stdin: bytes | None) -> list[str]:
    """Return the keys that a values file contains twice.

    If the file cannot be read, return [], because Helm reports this error.
    """
    if path != "-" and not Path(path).is_file():  # A FIFO can be read only once: a second read would wait forever.
        return []
    try:
        return mistakes(((stdin or b"") if path == "-" else Path(path).read_bytes()).decode())
    except (OSError, UnicodeDecodeError, YAMLError):
        return []
