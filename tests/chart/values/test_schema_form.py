"""Test the form of the values schema: known keywords, order, descriptions, and no rule without effect."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from schemas import build
from tests.chart.values.schema_entries import ENTRIES, SCHEMA, Schema, resolved

ORDER = [
    "description", "type", "$ref", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength",
    "maxLength", "pattern", "propertyNames", "additionalProperties", "required", "items", "uniqueItems", "properties",
    "default", "examples", "patternProperties",
]  # fmt: skip


def strict_metaschema() -> jsonschema.Draft6Validator:
    """Return a validator for schemas that refuses unknown keywords at every depth."""
    # JSON Schema's metaschema refers to itself as "#". If its $id is removed, "#" means the changed copy that is made
    # here, so the copy is strict at every depth.
    own = {key: value for key, value in jsonschema.Draft6Validator.META_SCHEMA.items() if key != "$id"}
    return jsonschema.Draft6Validator({**own, "additionalProperties": False})


def test_schema_has_only_keywords_that_json_schema_knows() -> None:
    errors = [error.message for error in strict_metaschema().iter_errors(SCHEMA)]

    assert errors == []


def test_no_rule_stands_beside_a_reference_where_draft_6_ignores_it() -> None:
    entries = [each for each in _blocks(SCHEMA) if isinstance(each.get("$ref"), str)]

    assert entries
    assert [entry for entry in entries if entry.keys() - build.NOTES] == []


def test_definitions_have_no_list_or_map_twice() -> None:
    parts = (part for name, entry in SCHEMA["definitions"].items() for part in build.collections(entry, name))
    found = Counter(json.dumps(rules) for _, rules in parts)

    assert found
    assert [rules for rules, number in found.items() if number > 1] == []


def _blocks(schema: Any) -> Iterator[Schema]:
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _blocks(each)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(("properties", "workers", "properties", "gpus"), id="in-an-entry"),
        pytest.param(("definitions", "envOrNull", "items"), id="in-a-list"),
        pytest.param(("definitions", "cpu"), id="in-a-shared-part"),
    ],
)
def test_misspelt_keyword_is_found(place: tuple[str, ...]) -> None:
    schema = copy.deepcopy(SCHEMA)
    target = schema
    for key in place:
        target = target[key]
    target["mimimum"] = 0

    errors = [error.message for error in strict_metaschema().iter_errors(schema)]

    assert any("mimimum" in error for error in errors)


@pytest.mark.parametrize(("path", "entry"), ENTRIES.items(), ids=ENTRIES)
def test_entry_is_described_and_in_order(path: str, entry: Schema) -> None:
    keys, description = list(entry), resolved(entry)["description"]

    assert description.endswith(".")
    assert "\n" not in description
    assert len(description) <= 110
    assert keys == sorted(keys, key=ORDER.index)


@pytest.mark.parametrize(("path", "entry"), ENTRIES.items(), ids=ENTRIES)
def test_object_refuses_unknown_keys_or_passes_them_on(path: str, entry: Schema) -> None:
    known = resolved(entry)

    if path == "global":
        return
    if known["type"] == "object":
        assert "additionalProperties" in known
    if "properties" in known:
        assert known["additionalProperties"] is False
