"""Write the chart's JSON schema from the YAML one: `python -m schemas.build`.

Helm reads charts/distrain/values.schema.json only; people read and change schemas/values.schema.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

SOURCE = Path(__file__).with_name("values.schema.yaml")
KUBERNETES = Path(__file__).with_name("kubernetes.json")
TARGET = SOURCE.parent.parent / "charts" / "distrain" / "values.schema.json"

Schema = dict[str, Any]


def read() -> Schema:
    """Return the YAML schema with Kubernetes' definitions beside its own, as one document."""
    text = SOURCE.read_text(encoding="utf-8").replace(f"{KUBERNETES.name}#", "#")
    schema: Schema = yaml.safe_load(text)
    schema["$defs"].update(json.loads(KUBERNETES.read_text(encoding="utf-8"))["$defs"])
    return schema


def build() -> str:
    """Return the text of the JSON schema; the same YAML gives the same bytes."""
    schema = read()
    return json.dumps(with_required(schema, schema["$defs"]), indent=1, ensure_ascii=False) + "\n"


def resolved(entry: Schema, definitions: Schema) -> Schema:
    """Return the entry with the shared limits that it refers to; its own come first."""
    if "$ref" not in entry:
        return entry
    shared = resolved(definitions[entry["$ref"].rpartition("/")[2]], definitions)
    own = {key: value for key, value in entry.items() if key != "$ref"}
    both = {
        "properties": {**shared.get("properties", {}), **own.get("properties", {})},
        "required": [*shared.get("required", []), *own.get("required", [])],
    }
    return {**shared, **own, **{key: value for key, value in both.items() if value}}


def with_required(schema: Schema, definitions: Schema) -> Schema:
    """Require what the templates cannot do without.

    Helm removes a key that a user sets to null, and a template then meets nothing where it expects a number.
    """
    if "properties" not in schema or "default" in schema:
        return schema
    properties = {name: with_required(entry, definitions) for name, entry in schema["properties"].items()}
    required = [name for name, entry in properties.items() if not _may_be_missing(entry, definitions)]
    return {**schema, "properties": properties, "required": required}


def _may_be_missing(entry: Schema, definitions: Schema) -> bool:
    """Tell whether null is a value of this entry, or it is a list or a free map, where null means empty."""
    may_be_null = "null" in resolved(entry, definitions)["type"]
    return may_be_null or isinstance(entry.get("default"), (list, dict))


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"wrote {TARGET}")
