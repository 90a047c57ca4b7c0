"""Write docs/values.md, the list of all values, from the YAML schema: `python -m schemas.document`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.build import Schema, is_optional, read, resolved
from schemas.pattern_words import words_of

TARGET = Path(__file__).resolve().parent.parent / "docs" / "values.md"
HEAD = """# Values

This page lists the values of the chart with their types and limits, their defaults, and what they do. `make schema`
writes the page from schemas/values.schema.yaml. The chart refuses other keys, except keys that start with `x-`, which
it ignores. charts/distrain/values.yaml says more about the effects. Values without a default are not in that file;
[platforms.md](platforms.md), [recipe.md](recipe.md) and [images.md](images.md) explain them. The same pages list the
keys of `networkPolicy`, `s3.caBundle`, `serviceAccount` and `trainer.augment`, which have only one row here. An editor
that knows YAML schemas shows these descriptions while you type, if the first line of your file names the schema as in
the files of values/.
"""
# Several roles have maps with these definitions.
SHARED = ("resources", "topology", "podSpec")
COLUMNS = ("value", "type and limits", "default", "what it does", "examples")


def document() -> str:
    """Return the text of docs/values.md."""
    schema = read()
    definitions = schema["definitions"]
    own = {name: entry for name, entry in schema["properties"].items() if _is_leaf(entry) or "default" in entry}
    groups = {name: entry for name, entry in schema["properties"].items() if name not in own}
    parts = [HEAD, _table(_rows({"properties": own}, "", definitions))]
    for name, group in groups.items():
        parts += [f"## {name}\n\n{group['description']}\n", _table(_rows(group, f"{name}.", definitions))]
    for name in SHARED:
        parts += [f"## {name} of a role\n\nThe keys of every `{name}` above.\n"]
        parts += [_table(_rows(definitions[name], f"{name}.", definitions))]
    return "\n".join(parts)


def _is_leaf(entry: Schema) -> bool:
    return "properties" not in entry


def _rows(schema: Schema, prefix: str, definitions: Schema) -> Iterator[tuple[str, ...]]:
    """Yield one table row per value. A map gets a row only if it has a default."""
    for name, entry in schema["properties"].items():
        path = f"{prefix}{name}"
        if _is_leaf(entry) or "default" in entry:
            default, known = _code(entry["default"]) if "default" in entry else "", resolved(entry, definitions)
            own = known if is_optional(entry) else entry
            examples = " ".join(_code(example) for example in own.get("examples", []))
            description = known["description"].replace("<", "&lt;")
            yield f"`{path}`", limits(entry, definitions), default, description, examples
        if not _is_leaf(entry):
            yield from _rows(entry, f"{path}.", definitions)


def limits(entry: Schema, definitions: Schema) -> str:
    """Return a value's type and limits in words."""
    if name := _kubernetes_name(entry, definitions):
        return f"Kubernetes `{name}`"
    known = resolved(entry, definitions)
    if "enum" in known:
        return ", ".join(_code(choice) for choice in known["enum"])
    types = known["type"] if isinstance(known["type"], list) else [known["type"]]
    return " or ".join(_one_type(name, known, definitions) for name in types)


def _kubernetes_name(entry: Schema, definitions: Schema) -> str:
    """Return the Kubernetes type to which an entry refers, directly or through another definition, or ""."""
    name: str = entry.get("$ref", "").rpartition("/")[2]
    if not name or name[0].isupper():
        return name
    return _kubernetes_name(definitions[name], definitions)


def _one_type(name: str, known: Schema, definitions: Schema) -> str:
    if name in ("integer", "number"):
        return name + _range(known)
    if name == "string":
        return _string(known)
    if name == "array" and "items" in known:
        return f"list of {limits(known['items'], definitions)}"
    if name == "object" and isinstance(known.get("additionalProperties"), dict):
        return f"map of {limits(known['additionalProperties'], definitions)}"
    return {"object": "map", "array": "list"}.get(name, name)


def _string(known: Schema) -> str:
    words = [words_of(known["pattern"])] if "pattern" in known else []
    words += [f"at most {known['maxLength']} characters"] if "maxLength" in known else []
    return f"string ({'; '.join(words)})" if words else "string"


def _range(known: Schema) -> str:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "to below"}
    return "".join(f" {word} {known[limit]}" for limit, word in words.items() if limit in known)


def _code(value: Any) -> str:
    return _code_text(json.dumps(value, ensure_ascii=False))


def _code_text(text: str) -> str:
    """Return the text as code for a table cell. A bar is escaped, because it would end the cell."""
    return f"`{text}`".replace("|", "\\|")


def _table(rows: Iterator[tuple[str, ...]]) -> str:
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
    print(f"wrote {TARGET}")
