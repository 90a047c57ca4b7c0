"""Make values for the fields of a schema.

Each text and each number in these values is unique, so that a test can find it again.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

from distrain.imports.ledger import Path

Schema = dict[str, Any]


class Samples:
    """Makes values. Each text and each number is used only once."""

    def __init__(self) -> None:
        self._numbers = itertools.count(710001)

    def of(self, schema: Schema) -> Any:
        """Return a value that has every field of the schema."""
        if schema.get("properties"):
            return {key: self.of(each) for key, each in schema["properties"].items()}
        kind = schema.get("type")
        if kind == "array":
            return [self.of(schema["items"])]
        if kind == "boolean":
            return True
        if kind in ("integer", "number"):
            return next(self._numbers)
        word = f"zq{next(self._numbers)}x"
        if kind == "object":
            more = schema.get("additionalProperties")
            return {word: self.of(more) if isinstance(more, dict) else word}
        return schema["enum"][-1] if schema.get("enum") else word

    def each(self, schema: Schema) -> Iterator[Any]:
        """Yield the values to try for a field: each choice of an enumeration, true and false, or one other value."""
        if schema.get("type") == "boolean":
            yield from (True, False)
        elif schema.get("enum"):
            yield from schema["enum"]
        else:
            yield self.of(schema)


def fields(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Yield the path and the schema of each direct field of an object."""
    for key, each in schema.get("properties", {}).items():
        yield (*path, key), each


def pod_fields(pod: Schema, place: Path) -> Iterator[tuple[Path, Schema]]:
    """Yield the fields of the pod spec at this path and of its first container, and of both security contexts."""
    container = at(pod, "containers")
    for path, each in ((place, pod), ((*place, "containers", 0), container)):
        yield from fields(each, path)
        yield from fields(at(each, "securityContext"), (*path, "securityContext"))


def at(schema: Schema, *path: str) -> Schema:
    """Return the schema of the field at a path. If a field on the path is a list, continue with the list's items."""
    for part in path:
        schema = schema.get("items", schema)
        schema = schema["properties"][part] if part in schema.get("properties", {}) else schema["additionalProperties"]
    return schema.get("items", schema)


def with_value(job: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of the job with this value at the path."""
    found = copy.deepcopy(job)
    place: Any = found
    for part in path[:-1]:
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    place[path[-1]] = value
    return found
