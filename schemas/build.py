"""Write the chart's JSON schema from the YAML schema: `python -m schemas.build`.

Helm reads only charts/distrain/values.schema.json. The source is schemas/values.schema.yaml, which people read and
change.
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
# Draft 6 of JSON Schema ignores every keyword that stands beside a $ref, so the build merges them. The keywords in this
# list do not refuse any value.
NOTES = {"$ref", "description", "default", "examples"}
# Some keys of these maps are missing in values.yaml.
OPTIONAL_MAPS = ("resources", "topology", "podSpec", "serviceAccount", "caBundle", "networkPolicy", "augment")
QUANTITY = "#/definitions/quantity"
# The name of a definition that also allows null has this suffix.
OR_NULL = "OrNull"
REFERENCE = re.compile(r'"#/definitions/(\w+)"')


def read() -> Schema:
    """Return the YAML schema together with Kubernetes' definitions."""
    text = SOURCE.read_text(encoding="utf-8").replace(f"{KUBERNETES.name}#", "#")
    schema: Schema = with_own_keys(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    schema["definitions"].update(json.loads(KUBERNETES.read_text(encoding="utf-8"))["definitions"])
    return schema


def with_own_keys(entry: Any) -> Any:
    """Allow keys that begin with x- in all maps of distrain's own values, but not in maps of Kubernetes."""
    if isinstance(entry, list):
        return [with_own_keys(each) for each in entry]
    if not isinstance(entry, dict):
        return entry
    inner = {key: with_own_keys(value) for key, value in entry.items()}
    is_closed = entry.get("additionalProperties") is False
    return {**inner, "patternProperties": {"^x-": True}, **inner} if is_closed else inner


def build() -> str:
    """Return the JSON schema as text. The same YAML gives the same bytes."""
    plain = read()
    schema = with_null(with_required(plain, plain["definitions"]))
    complete = without_unused(merged(direct(schema), schema["definitions"]))
    return "\n".join(lines(inlined(without_copies(inlined(complete))))) + "\n"


def direct(schema: Schema) -> Schema:
    """If a definition A is only a reference to a definition B, replace each reference to A with a reference to B."""
    aliases = {name: entry["$ref"] for name, entry in schema["definitions"].items() if entry.keys() == {"$ref"}}
    text = REFERENCE.sub(lambda name: json.dumps(aliases.get(name[1], name[0].strip('"'))), json.dumps(schema))
    found: Schema = json.loads(text)
    return found


def with_null(schema: Schema) -> Schema:
    """Allow null for the keys that values.yaml leaves out. For these keys, null means the same as leaving out the key.

    Helm itself removes a key with the value null only if values.yaml contains the key. This rule is not in the YAML
    schema or in docs/values.md.
    """
    definitions = dict(schema["definitions"])
    for name in OPTIONAL_MAPS:
        inner = definitions[name]["properties"]
        definitions[name] = {**definitions[name], "properties": {key: _or_null(inner[key]) for key in inner}}
    definitions["amounts"] = {**definitions["amounts"], "additionalProperties": _or_null({"$ref": QUANTITY})}
    nullable = _with_null({**schema, "definitions": definitions})
    for name in sorted(set(REFERENCE.findall(json.dumps(nullable))) - definitions.keys()):
        base = name.removesuffix(OR_NULL)
        definitions[name] = _or_null(resolved(definitions[base], definitions))
        if definitions[name]["type"][0] in ("array", "object"):
            # A scalar keeps its own definition, and gets a second one that allows null. A list or map has only one
            # definition, which then allows null, because Helm would need time to read a second one.
            definitions[base] = {"$ref": f"#/definitions/{name}"}
    return nullable


def _with_null(group: Schema) -> Schema:
    if "properties" not in group or "default" in group:
        return group
    inner = group["properties"]
    both = {key: (_or_null if is_optional(entry) else _with_null)(entry) for key, entry in inner.items()}
    return {**group, "properties": both}


def _or_null(entry: Schema) -> Schema:
    """Return the entry with `null` among its types, and among its choices if it has any."""
    if "$ref" in entry:
        return {**entry, "$ref": entry["$ref"] + OR_NULL}
    kinds = entry["type"] if isinstance(entry["type"], list) else [entry["type"]]
    choices = {"enum": [*entry["enum"], None]} if "enum" in entry else {}
    return {**entry, "type": list(dict.fromkeys([*kinds, "null"])), **choices}


def lines(schema: Schema) -> Iterator[str]:
    """Yield the lines of the JSON schema: one per value at the top level, and one per definition.

    Helm parses this form faster than indented JSON.
    """
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
    """If a reference ($ref) has rules beside it, replace it with the definition, merged with these rules.

    Also replace each reference to a definition in `always` with the definition itself.
    """
    if isinstance(entry, list):
        return [merged(each, definitions, always) for each in entry]
    if not isinstance(entry, dict):
        return entry
    if "$ref" in entry and (entry.keys() - NOTES or _definition(entry) in always):
        entry = resolved(entry, definitions)
    return {key: merged(value, definitions, always) for key, value in entry.items()}


def without_copies(schema: Schema) -> Schema:
    """If several lists or maps in the definitions are equal, replace each with a reference to one new definition.

    Each entry of a schema costs Helm time.
    """
    places: dict[str, list[str]] = {}
    for name, entry in schema["definitions"].items():
        for place, rules in collections(entry, name):
            places.setdefault(_dumped(rules), []).append(place)
    names = {text: found[0] for text, found in places.items() if len(found) > 1}
    copies = {name: json.loads(text) for text, name in names.items()}
    definitions = {**copies, **schema["definitions"]}
    return {
        **schema,
        "definitions": {name: _with_names(entry, names, name) for name, entry in definitions.items()},
    }


def collections(entry: Any, place: str) -> Iterator[tuple[str, Schema]]:
    """Yield the lists and maps in an entry, without their descriptions.

    The name of each list or map is made of the keys that lead to it.
    """
    if not isinstance(entry, dict):
        return
    if entry.get("type") in ("array", "object"):
        yield place, _rules(entry)
    for key, inner in entry.items():
        if key not in NOTES:
            yield from collections(inner, place if key == "properties" else f"{place}_{key}")


def _with_names(entry: Any, names: dict[str, str], own: str = "") -> Any:
    """Replace each list or map in the entry of the definition `own` with a reference, if `names` has a name for it.

    The entry itself stays if its name is `own`, because it would otherwise refer to itself.
    """
    if not isinstance(entry, dict):
        return entry
    name = names.get(_dumped(_rules(entry)))
    if name and name != own:
        notes = {key: value for key, value in entry.items() if key in NOTES}
        return {**notes, "$ref": f"#/definitions/{name}"}
    return {key: value if key in NOTES else _with_names(value, names) for key, value in entry.items()}


def _rules(entry: Schema) -> Schema:
    return {key: value for key, value in entry.items() if key not in NOTES}


def inlined(schema: Schema) -> Schema:
    """If only one reference to a definition exists, replace this reference with the definition.

    Helm compiles references too.
    """
    return without_unused(merged(schema, schema["definitions"], used_once(schema)))


def used_once(schema: Schema) -> frozenset[str]:
    """Return the definitions to which only one reference exists, if this reference is in another definition."""
    uses = Counter(REFERENCE.findall(json.dumps(schema)))
    by_values = REFERENCE.findall(json.dumps(schema["properties"]))
    return frozenset(name for name, number in uses.items() if number == 1 and name not in by_values)


def without_unused(schema: Schema) -> Schema:
    """Remove definitions to which nothing refers. Otherwise Helm would check them at every run."""
    used = set(REFERENCE.findall(json.dumps(schema)))
    kept = {name: entry for name, entry in schema["definitions"].items() if name in used}
    return schema if len(kept) == len(schema["definitions"]) else without_unused({**schema, "definitions": kept})


def resolved(entry: Schema, definitions: Schema) -> Schema:
    """Return the entry together with the shared definitions to which it refers.

    If the entry and the definition have the same keyword, the entry's keyword counts.
    """
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

    If a user sets a key to null, Helm removes the key. Without this rule, the templates would then miss a value, for
    example a number.
    """
    if "properties" not in schema or "default" in schema:
        return schema
    properties = {name: with_required(entry, definitions) for name, entry in schema["properties"].items()}
    required = [name for name, entry in properties.items() if not _may_be_missing(entry, definitions)]
    return {**schema, "properties": properties, "required": required}


def _may_be_missing(entry: Schema, definitions: Schema) -> bool:
    """Tell whether a key may be missing.

    A key may be missing if null is allowed, values.yaml has no default, or the default is a list or map.
    """
    may_be_null = "null" in resolved(entry, definitions)["type"]
    return may_be_null or is_optional(entry) or isinstance(entry.get("default"), (list, dict))


def is_optional(entry: Schema) -> bool:
    """Tell whether values.yaml leaves out this value because few users need it."""
    return "default" not in entry and "properties" not in entry


if __name__ == "__main__":
    TARGET.write_text(build(), encoding="utf-8")
    print(f"wrote {TARGET}")
