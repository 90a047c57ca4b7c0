"""Create mutations: values with one mistake, and the place of the mistake, which Helm's error message must name.

A mutation sets a wrong type, a value out of range, an unknown choice, a misspelt, unknown or misplaced key, or null.
The schema determines which mistakes are possible at a place. The same values always give the same mutations.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemas import build

Schema = dict[str, Any]
Path = tuple[str | int, ...]

SCHEMA: Schema = build.read()
SAMPLES: dict[str, Any] = {
    "string": "a text", "integer": 7, "number": 1.5, "boolean": True, "array": ["a"], "object": {"a": 1}, "null": None,
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """Invalid values, and the error that Helm must print: the place and the finding."""

    kind: str
    values: dict[str, Any]
    pointer: str
    words: str

    @property
    def name(self) -> str:
        return f"{self.kind} at {self.pointer or '/'}: {self.words}"


@dataclass(frozen=True)
class Place:
    """One place in a document: its value and its schema."""

    path: Path
    value: Any
    schema: Schema

    @property
    def types(self) -> set[str]:
        known = self.schema.get("type", [])
        return set(known if isinstance(known, list) else [known])


def pointer(path: Path) -> str:
    """Return the JSON pointer with which Helm's error messages name this path."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def resolved(schema: Schema) -> Schema:
    return build.resolved(schema, SCHEMA["definitions"])


def leaves(schema: Schema = SCHEMA, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield the path and schema entry of each value of the chart, including the values inside podSpec and resources."""
    for name, entry in schema["properties"].items():
        path, known = f"{prefix}{name}", of_chart(entry)
        if "properties" in known and path != "global":
            yield from leaves(known, f"{path}.")
        else:
            yield path, entry


def of_chart(entry: Schema) -> Schema:
    """Merge a schema entry with the definition of the chart that the entry refers to.

    The names of definitions taken from Kubernetes begin with a capital letter. These definitions are not merged.
    """
    name = entry.get("$ref", "/A").rpartition("/")[2]
    return entry if name[0].isupper() else of_chart({**entry, "$ref": "/A", **SCHEMA["definitions"][name]})


def places(value: Any, schema: Schema = SCHEMA, path: Path = ()) -> Iterator[Place]:
    """Yield every place of a document that has a schema, including the root."""
    known = resolved(schema)
    yield Place(path, value, known)
    if isinstance(value, dict):
        for key, inner in value.items():
            if (found := schema_of(key, known)) is not None:
                yield from places(inner, found, (*path, key))
    if isinstance(value, list) and "items" in known:
        for index, inner in enumerate(value):
            yield from places(inner, known["items"], (*path, index))


def schema_of(key: str, known: Schema) -> Schema | None:
    if key in known.get("properties", {}):
        found: Schema = known["properties"][key]
        return found
    more = known.get("additionalProperties")
    return more if isinstance(more, dict) else None


def changed(values: Any, path: Path, change: Callable[[Any, Any], None]) -> Any:
    """Return a copy of the document after `change` has edited the map or list that contains the path's last key."""
    values = copy.deepcopy(values)
    holder = values
    for part in path[:-1]:
        holder = holder[part]
    change(holder, path[-1])
    return values


def replaced(values: Any, path: Path, value: Any) -> Any:
    def put(holder: Any, key: Any) -> None:
        holder[key] = value

    return changed(values, path, put)


def renamed(values: Any, path: Path, key: str) -> Any:
    """Return a copy of the document with one key renamed. The renamed key keeps its position in the map."""

    def rename(holder: dict[str, Any], old: str) -> None:
        entries = [(key if name == old else name, value) for name, value in holder.items()]
        holder.clear()
        holder.update(entries)

    return changed(values, path, rename)


def mutations(values: dict[str, Any]) -> Iterator[Mutation]:
    """Yield every mutation of a document."""
    for place in places(values):
        for kind, make in MUTATORS.items():
            for mutation in make(values, place):
                yield Mutation(kind, *mutation)


Broken = tuple[dict[str, Any], str, str]


def wrong_types(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    allowed = place.types | ({"integer"} if "number" in place.types else set())
    if not place.path or not allowed:
        return
    for name, sample in SAMPLES.items():
        if name not in allowed and not (name == "null" and is_removed_by_helm(place)):
            yield replaced(values, place.path, sample), pointer(place.path), "got "


def is_removed_by_helm(place: Place) -> bool:
    """Return whether Helm removes the key if its value is null. Helm keeps null inside lists."""
    return all(isinstance(part, str) for part in place.path)


def nulls(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    """Yield a mutation that sets a required key to null: Helm then drops the key, and must report it as missing."""
    if "null" in place.types or not is_removed_by_helm(place) or place.path not in REQUIRED:
        return
    parent, key = place.path[:-1], place.path[-1]
    yield replaced(values, place.path, None), pointer(parent), f"missing property '{key}'"


def out_of_range(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    for limit, step in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0)):
        if limit in place.schema:
            beyond = place.schema[limit] + step
            # Helm versions format large numbers differently.
            found = f"got {beyond:,}" if beyond < 10**6 else "got "
            yield replaced(values, place.path, beyond), pointer(place.path), f"{limit}: {found}"


def wrong_choices(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    choices = place.schema.get("enum", [])
    words = [choice for choice in choices if choice is not None]
    tried = {wrong for word in words for wrong in (word.swapcase(), f"{word}x", word[1:])}
    for wrong in sorted(tried.difference(choices)):
        yield replaced(values, place.path, wrong), pointer(place.path), "value must be "


def misspelt_keys(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    if place.schema.get("additionalProperties") is not False:
        return
    for key in place.value:
        for misspelt in misspellings(key, place.schema["properties"]):
            broken = renamed(values, (*place.path, key), misspelt)
            yield broken, pointer(place.path), f"additional properties '{misspelt}' not allowed"


def misspellings(key: str, known: Mapping[str, Any]) -> list[str]:
    """Return up to four misspelt forms of a key, for example with a missing letter or in snake_case."""
    chance = random.Random(key)
    at = chance.randrange(len(key))
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
    tried = [
        key[:at] + key[at + 1 :], key[:at] + key[at] + key[at:], key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
        key[:at] + key[at].swapcase() + key[at + 1 :], snake, snake.replace("_", "-"), key.lower(), f"{key}s",
    ]  # fmt: skip
    return chance.sample(wrong := sorted({misspelt for misspelt in tried if misspelt} - set(known)), min(4, len(wrong)))


def unknown_keys(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    if place.schema.get("additionalProperties") is False and isinstance(place.value, dict):
        for key in ("unknown", "Name", *(("global",) if place.path else ()), *_of_ones_own(place)):
            yield with_key(values, place.path, key), pointer(place.path), f"additional properties '{key}' not allowed"


def _of_ones_own(place: Place) -> tuple[str, ...]:
    """For a map that must refuse unknown keys that begin with x-, return such a key.

    The chart's own maps accept keys that begin with x-, so nothing is returned for them. Kubernetes gets all other maps
    unchanged and would refuse such a key.
    """
    return () if "patternProperties" in place.schema else ("x-inner",)


def with_key(values: dict[str, Any], path: Path, key: str) -> dict[str, Any]:
    return replaced(values, (*path, key), {"a": "b"})


def wrong_nesting(values: dict[str, Any], place: Place) -> Iterator[Broken]:
    """Yield mutations that move a key to the top level, or into a group that has no such key."""
    if not place.path or not isinstance(key := place.path[-1], str):
        return
    others = [name for name, entry in GROUPS.items() if key not in entry["properties"] and name in values]
    chosen = random.Random(pointer(place.path)).sample(others, 1)
    if len(place.path) > 1 and key not in SCHEMA["properties"] and not key.startswith("x-"):
        yield {**values, key: place.value}, "", f"additional properties '{key}' not allowed"
    for group in chosen:
        broken = {**values, group: {**values[group], key: place.value}}
        yield broken, f"/{group}", f"additional properties '{key}' not allowed"


GROUPS = {
    name: entry for name, entry in SCHEMA["properties"].items() if "properties" in entry and "default" not in entry
}


def required_paths(schema: Schema, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of the keys that the schema requires."""
    for name in schema.get("required", []):
        yield (*path, name)
    for name, entry in schema.get("properties", {}).items():
        yield from required_paths(entry, (*path, name))


REQUIRED = set(required_paths(build.with_required(SCHEMA, SCHEMA["definitions"])))

MUTATORS: dict[str, Callable[[dict[str, Any], Place], Iterator[Broken]]] = {
    "wrong type": wrong_types,
    "null": nulls,
    "out of range": out_of_range,
    "wrong choice": wrong_choices,
    "misspelt key": misspelt_keys,
    "unknown key": unknown_keys,
    "wrong nesting": wrong_nesting,
}
