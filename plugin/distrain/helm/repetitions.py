"""Name the keys that a values file has twice."""

from __future__ import annotations

from yaml import YAMLError

from distrain import temporary
from distrain.helm.program import Source
from distrain.yaml.repeated_keys import mistakes


def repetitions(source: Source) -> list[str]:
    """Return one line for each key that a values file contains twice."""
    return [
        f"--values: {temporary.with_names(path)}: {mistake}"
        for path in dict.fromkeys(source.files)
        for mistake in _repeated_in(source, path)
    ]


def _repeated_in(source: Source, path: str) -> list[str]:
    """Return the keys that a values file contains twice.

    If the file cannot be read, return [], because Helm reports this error.
    """
    if not source.can_read_again(path):
        return []
    try:
        return mistakes(source.read(path).decode())
    except (OSError, UnicodeDecodeError, YAMLError):
        return []
