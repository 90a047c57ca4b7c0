"""Read the entries of the values schema from schemas/, by path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lab.paths import CHART
from schemas import build

Schema = dict[str, Any]

SOURCE: Schema = build.read()
# The schema file that Helm reads, which is built from SOURCE.
SCHEMA: Schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def entries(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield the path and the entry of every value that the chart knows."""
    for name, entry in schema["properties"].items():
        yield f"{path}{name}", entry
        if "properties" in entry and "default" not in entry:
            yield from entries(entry, f"{path}{name}.")


ENTRIES = dict(entries(SOURCE))
LEAVES = {path: entry for path, entry in ENTRIES.items() if "default" in entry}
# These values are not in values.yaml. docs/platforms.md explains them.
OPTIONAL = {path: entry for path, entry in ENTRIES.items() if build.is_optional(entry)}


def resolved(entry: Schema) -> Schema:
    """Return the entry merged with the shared definitions that it refers to."""
    return build.resolved(entry, SOURCE["definitions"])
