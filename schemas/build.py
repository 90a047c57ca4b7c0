"""Write the chart's JSON schema from the YAML schema: `python -m schemas.build`.

Helm reads only charts/distrain/values.schema.json. People read and change schemas/values.schema.yaml.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

SOURCE = Path(__file__).with_name("values.schema.yaml")
KUBERNETES = Path(__file__).with_name("kubernetes.json")
TARGET = SOURCE.parent.parent / "charts" / "distrain" / "values.schema.json"

Schema = dict[str, Any]
# Keywords that refuse no value. Draft 7 ignores every other keyword beside a $ref.
NOTES = {"$ref", "description", "default", "examples"}
REFERENCE = re.compile(r'"#/definitions/(\w+)"')


def read() -> Schema:
    """Return the YAML schema merged with Kubernetes' definitions."""
    text = SOURCE.read_text(encoding="utf-8").replace(f"{KUBERNETES.name}#", "#")
    schema: Schema = with_own_keys(yaml.safe_load(text))
    schema["definitions"].update(json.loads(KUBERNETES.read_text(encoding="utf-8"))["definitions"])
    return schema


def with_own_keys(entry: Any) -> Any:
    """Let every map of distrain's own take keys that begin with x-, as the top does. Kubernetes' maps take none."""
    if isinstance(entry, list):
        return [with_own_keys(each) for each in entry]
    if not isinstance(entry, dict):
        return entry
    inner = {key: with_own_keys(value) for key, value in entry.items()}
    is_closed = entry.get("additionalProperties") is False
    return {**inner, "patternProperties": {"^x-": {}}, **inner} if is_closed else inner


def build() -> str:
    """Return the text of the JSON schema. The same YAML gives the same bytes."""
    schema = read()
    complete = without_unused(merged(with_required(schema, schema["definitions"]), schema["definitions"]))
    flat = without_unused(merged(complete, complete["definitions"], used_once(complete)))
    return "\n".join(lines(flat)) + "\n"


def lines(schema: Schema) -> Iterator[str]:
    """Yield JSON with one line per value at the top and per definition. Helm parses this faster than indented JSON."""
    for number, (key, entry) in enumerate(schema.items()):
        before = "," if number else "{"
        if key in ("properties", "definitions"):
            yield f'{before}"{key}":{{'
            yield ",\n".join(f'"{name}":{_dumped(each)}' for name, each in entry.items())
            yield "}"
        else:
            yield f'{before}"{key}":{_dumped(entry)}'
    yield "}"


def _dumped(entry: Any) -> str:
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)


def merged(entry: Any, definitions: Schema, always: frozenset[str] = frozenset()) -> Any:
    """Return the schema without rules beside a $ref: such an entry is merged with its definition.

    So is each reference to the definitions named in `always`.
    """
    if isinstance(entry, list):
        return [merged(each, definitions, always) for each in entry]
    if not isinstance(entry, dict):
        return entry
    if "$ref" in entry and (entry.keys() - NOTES or _definition(entry) in always):
        entry = resolved(entry, definitions)
    return {key: merged(value, definitions, always) for key, value in entry.items()}


def used_once(schema: Schema) -> frozenset[str]:
    """Return the definitions with a single reference, from another definition. Helm compiles each reference too."""
    uses = Counter(REFERENCE.findall(json.dumps(schema)))
    by_values = REFERENCE.findall(json.dumps(schema["properties"]))
    return frozenset(name for name, number in uses.items() if number == 1 and name not in by_values)


def without_unused(schema: Schema) -> Schema:
    """Remove the definitions that nothing refers to any more. Helm would check them at every run."""
    used = set(REFERENCE.findall(json.dumps(schema)))
    kept = {name: entry for name, entry in schema["definitions"].items() if name in used}
    return schema if len(kept) == len(schema["definitions"]) else without_unused({**schema, "definitions": kept})


def resolved(entry: Schema, definitions: Schema) -> Schema:
    """Return the entry merged with the shared definitions that it refers to. The entry's own keywords win."""
    if "$ref" not in entry:
        return entry
    shared = resolved(definitions[_definition(entry)], definitions)
    own = {key: value for key, value in entry.items() if key != "$ref"}
    fields: Schema = shared.get("properties", {})
    limits: Schema = own.get("properties", {})
    both = {
        "properties": {**fields, **{name: {**fields.get(name, {}), **limit} for name, limit in limits.items()}},
        "required": list(dict.fromkeys([*shared.get("required", []), *own.get("required", [])])),
    }
    return {**shared, **own, **{key: value for key, value in both.items() if value}}


def _definition(entry: Schema) -> str:
    return str(entry["$ref"].rpartition("/")[2])


def with_required(schema: Schema, definitions: Schema) -> Schema:
    """Require the keys that the templates need.

    Helm removes a key that a user sets to null, and the templates would find nothing instead of, for example, a number.
    """
    if "properties" not in schema or "default" in schema:
        return schema
    properties = {name: with_required(entry, definitions) for name, entry in schema["properties"].items()}
    required = [name for name, entry in properties.items() if not _may_be_missing(entry, definitions)]
    return {**schema, "properties": properties, "required": required}


def _may_be_missing(entry: Schema, definitions: Schema) -> bool:
    """Return whether the key may be missing, or null as a value, or as an empty list or free map."""
    may_be_null = "null" in resolved(entry, definitions)["type"]
    return may_be_null or is_optional(entry) or isinstance(entry.get("default"), (list, dict))


def is_optional(entry: Schema) -> bool:
    """Return whether an entry is a value that values.yaml leaves out, because few need it."""
    return "default" not in entry and "properties" not in entry


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"wrote {TARGET}")
