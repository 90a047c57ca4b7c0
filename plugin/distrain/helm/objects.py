"""Name the values files that are Kubernetes objects."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from distrain import temporary
from distrain.helm.program import Source
from distrain.yaml import yaml_loader


def objects(source: Source) -> Iterator[str]:
    """Yield one line for each values file that is a Kubernetes object: it has both an apiVersion and a kind."""
    for path in dict.fromkeys(source.files):
        found = _first_document(source, path)
        if isinstance(found, dict) and isinstance(found.get("kind"), str) and "apiVersion" in found:
            name = temporary.with_names(path)
            quoted = shlex.quote(name)
            step = f"name a values file; `helm distrain import {quoted}` prints one for a training job"
            yield f"--values: {name} is a Kubernetes object ({found['kind']}), not values; {step}"


def _first_document(source: Source, path: str) -> Any:
    """Return the first document of a file, or None if the file cannot be read, because Helm reports this error."""
    if not source.can_read_again(path):
        return None
    try:
        return yaml_loader.load(source.read(path).decode("utf-8-sig"))
    except (OSError, ValueError):
        return None
