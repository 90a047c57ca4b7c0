"""Write the chart's JSON schema from the YAML one: `python schemas/build.py`.

Helm reads charts/distrain/values.schema.json only; people read and change schemas/values.schema.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

SOURCE = Path(__file__).with_name("values.schema.yaml")
TARGET = SOURCE.parent.parent / "charts" / "distrain" / "values.schema.json"


def build() -> str:
    """Return the text of the JSON schema; the same YAML gives the same bytes."""
    schema = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return json.dumps(_with_required(schema, schema["$defs"]), indent=2, ensure_ascii=False) + "\n"


def _with_required(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Require what the templates cannot do without.

    Helm removes a key that a user sets to null, and a template then meets nothing where it expects a number.
    """
    if "properties" not in schema or "default" in schema:
        return schema
    properties = {name: _with_required(entry, definitions) for name, entry in schema["properties"].items()}
    required = [name for name, entry in properties.items() if not _may_be_missing(entry, definitions)]
    return {**schema, "properties": properties, "required": required}


def _may_be_missing(entry: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Tell whether null is a value of this entry, or it is a list or a free map, where null means empty."""
    shared = definitions.get(entry.get("$ref", "").rpartition("/")[2], {})
    may_be_null = "null" in shared.get("type", entry.get("type"))
    return may_be_null or isinstance(entry.get("default"), (list, dict))


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"wrote {TARGET}")
