"""Check merged values against the chart's schema, and report mistakes in plain words.

Helm checks the same schema when it renders the chart. But Helm's messages name JSON pointers and regular expressions,
and no next step. All rules are in the schema, so this module names no values of the chart, except those of an image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from jsonschema import SchemaError, ValidationError
from jsonschema.validators import Draft202012Validator, validator_for
from msgspec import Struct
from referencing.exceptions import Unresolvable

from distrain import redact
from distrain.errors import ValuesError

Schema = Mapping[str, Any]

# The search ends after MOST_FAULTS violations of the schema: a file of the wrong type may have 100,000, and only ten
# are printed.
MOST_FAULTS = 1000
# A message lists the names that are allowed in a section of at most MOST_NAMES values.
MOST_NAMES = 30
TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "object": "a mapping of keys",
    "array": "a list",
    "null": "null",
}
# The largest integer that Go and the API server can store. Written out, such an integer has at most LONGEST_NUMBER
# characters.
LARGEST, LONGEST_NUMBER = 2**63 - 1, 20
# An image in one text. Its parts have the names of the values that hold them.
IMAGE = re.compile(r"(?P<repository>.+?)(:(?P<tag>[\w.-]+))?(@(?P<digest>sha256:[0-9a-f]+))?")
NOUNS: dict[type, str] = {str: "the text ", list: "the list ", dict: "the block "}


class Fault(Struct, frozen=True):
    """A value that violates a rule of the schema: its path, the rule with its limit, and the value's schema entry."""

    path: str
    found: Any
    rule: str
    limit: Any
    entry: Schema
    in_name: bool


def check(values: Mapping[str, Any], chart: Path) -> None:
    """Raise ValuesError with one line for each violation of the chart's schema, or if the schema itself is wrong."""
    path = chart / "values.schema.json"
    if not path.is_file():
        return
    schema = json.loads(path.read_text())
    # If a schema names no draft, assume draft 2020-12, as Helm does.
    kind = validator_for(schema, default=Draft202012Validator)
    try:
        kind.check_schema(schema)
        errors = [*islice(kind(schema).iter_errors(values), MOST_FAULTS)]
    except (SchemaError, Unresolvable, RecursionError, re.error) as error:
        raise ValuesError(f"--chart: {chart} has a {path.name} that is not a JSON schema; correct that file") from error
    faults = sorted(_without_counts([_fault(error, schema) for error in errors]), key=lambda fault: fault.path)
    messages = (message for fault in faults for message in _messages(fault, schema))
    if found := dict.fromkeys(islice(messages, MOST_FAULTS)):
        raise ValuesError(*found)


def _fault(error: ValidationError, schema: Schema) -> Fault:
    in_name = "propertyNames" in error.absolute_schema_path
    # A schema may be the word `false` instead of an object.
    own: Any = error.schema if isinstance(error.schema, dict) else {}
    entry = {**own, **_notes(error, schema)}
    return Fault(
        _dotted(error.absolute_path), error.instance, str(error.validator), error.validator_value, entry, in_name
    )


def _without_counts(faults: list[Fault]) -> Iterator[Fault]:
    """Yield the faults.

    "Too many keys" is left out for a mapping that has an unknown key, because it is the same mistake.
    """
    unknown = {fault.path for fault in faults if fault.rule == "additionalProperties"}
    return (fault for fault in faults if fault.rule != "maxProperties" or fault.path not in unknown)


def _notes(error: ValidationError, schema: Schema) -> dict[str, Any]:
    """Return the description, the examples and the default of the value.

    The schema has them beside the $ref to the rule.
    """
    at: Any = schema
    notes: dict[str, Any] = {}
    for part in error.absolute_schema_path:
        while part not in at:
            if "$ref" not in at:
                return {}
            notes = {**{key: at[key] for key in ("description", "examples", "default") if key in at}, **notes}
            at = schema["definitions"][at["$ref"].rpartition("/")[2]]
        if part == error.validator:
            return notes
        notes, at = {}, at[part]
    return notes


def _messages(fault: Fault, schema: Schema) -> Iterator[str]:
    if fault.rule == "additionalProperties":
        yield from (_unknown(_join(fault.path, key), key, fault.entry, schema) for key in _extra(fault))
    elif fault.rule == "required":
        missing = [_join(fault.path, key) for key in fault.limit if key not in fault.found]
        yield from (f"{path}: is missing, or null removed its default; give it a value" for path in missing)
    elif fault.in_name:
        yield f"{fault.path}: {_found(fault)} is not an allowed name here; {_renamed(fault.entry)}"
    else:
        yield f"{fault.path or 'values'}: {_finding(fault)}"


def _finding(fault: Fault) -> str:
    found, limit = _found(fault), fault.limit
    match fault.rule:
        case "type":
            return _wrong_type(fault)
        case "enum":
            return f"{found} is not known; {_hint(fault.found, limit)}"
        case "minimum":
            return f"{found} is too small; use {limit} or more"
        case "exclusiveMinimum":
            return f"{found} is too small; use more than {limit}"
        case "maximum":
            return f"{found} is too large; use {limit} or less"
        case "exclusiveMaximum":
            return f"{found} is too large; use less than {limit}"
        case "minLength":
            return f"{found} is too short; it needs {limit} or more characters"
        case "maxLength":
            return f"{found} is too long; it may have at most {limit} characters"
        case "minProperties":
            return f"{found} has too few keys; give it {limit} or more"
        case "maxProperties":
            return f"{found} has too many keys; keep at most {limit} of them"
        case "uniqueItems":
            return f"{found} contains the same entry twice; remove one"
    return _of_image(fault) or f"{found} does not have the right form.{_described(fault)}"


def _of_image(fault: Fault) -> str:
    """Return a message if the value is to be an image's repository, but also has the image's tag or digest."""
    section, _, key = fault.path.rpartition(".")
    image = IMAGE.fullmatch(str(fault.found))
    if key != "repository" or image is None or not re.search(str(fault.limit), image["repository"]):
        return ""
    parts = {name: part for name, part in image.groupdict().items() if part}
    settings = ",".join(f"{section}.{name}={part}" for name, part in parts.items())
    return f"{_found(fault)} contains a {' and a '.join([*parts][1:])}; --set {settings}"


def _wrong_type(fault: Fault) -> str:
    needed = [fault.limit] if isinstance(fault.limit, str) else fault.limit
    names = " or ".join(TYPES[name] for name in needed)
    return f"found {NOUNS.get(type(fault.found), '')}{_found(fault)}; it needs {names}{_retype(fault, needed)}"


def _retype(fault: Fault, needed: Iterable[str]) -> str:
    """Return the next step for a wrong type, such as a number in quotes, or a fraction that --set has made a string."""
    found = fault.found
    if isinstance(found, str) and re.fullmatch(r"-?[0-9]+", found) and {"integer", "number"} & set(needed):
        if abs(int(found[:LONGEST_NUMBER])) > LARGEST:
            return ". The number is too large; write a smaller number"
        return f". Write {found} without quotes, and with --set in place of --set-string"
    if isinstance(found, str) and re.fullmatch(r"-?[0-9]*\.[0-9]+", found) and "number" in needed:
        return (
            f". Write {found} without quotes, or as --set-json {fault.path}={found}, because --set turns it into text"
        )
    example = _example(fault.entry)
    return f", such as {example}" if example else ""


def _unknown(path: str, key: str, entry: Schema, schema: Schema) -> str:
    siblings = list(entry.get("properties", {}))
    close = get_close_matches(key, siblings, n=1)
    likely = [path.removesuffix(key) + close[0]] if close else _namesakes(key, schema)
    if likely:
        return f"{path}: there is no such value; did you mean {' or '.join(likely)}?"
    if len(siblings) > MOST_NAMES:
        return f"{path}: there is no such value; values.yaml of the chart lists all values"
    return f"{path}: there is no such value; allowed here: {', '.join(siblings) or 'none'}"


def _namesakes(key: str, schema: Schema) -> list[str]:
    """Return the paths of values that have this key, because the user may have written the key in the wrong section."""
    return [path for path in _paths(schema) if path.rpartition(".")[2] == key]


def _extra(fault: Fault) -> Iterator[str]:
    patterns = fault.entry.get("patternProperties", {})
    for key in fault.found:
        if key not in fault.entry.get("properties", {}) and not any(re.search(pattern, key) for pattern in patterns):
            yield key


def _paths(schema: Schema, prefix: str = "") -> Iterator[str]:
    for key, entry in schema.get("properties", {}).items():
        yield _join(prefix, key)
        yield from _paths(entry, _join(prefix, key))


def _hint(found: object, choices: list[Any]) -> str:
    names = ["null" if choice is None else str(choice) for choice in choices]
    # Compare without upper and lower case first, because difflib finds no similarity between mpijob and MPIJob.
    same = [name for name in names if name.lower() == str(found).lower()]
    close = same or get_close_matches(str(found), names, n=1)
    *others, last = names
    words = f"{', '.join(others)} or {last}" if others else last
    return f"did you mean {close[0]}?" if close else f"use {words}"


def _renamed(entry: Schema) -> str:
    example = _example(entry)
    return f"use one such as {example}" if example else "correct it"


def _described(fault: Fault) -> str:
    entry = fault.entry
    words = [entry["description"]] if "description" in entry else []
    example = _all_forms(fault) or _example(entry, str(fault.found))
    empty = ", or leave it empty" if entry.get("default") == "" else ""
    return " ".join(["", *words, f"Write it as {example}{empty}." if example else "Correct it."])


def _all_forms(fault: Fault) -> str | None:
    """If a value must be a number or one special word, return all examples of the value, joined by "or"."""
    is_word = fault.rule == "pattern" and re.fullmatch(r"\^\w+\$", str(fault.limit))
    return " or ".join(map(_shown, fault.entry.get("examples") or [])) if is_word else None


def _example(entry: Schema, found: str = "") -> str | None:
    """Return the example that is most similar to `found`. Otherwise return the last example, or else the default.

    The first example is often a special case, such as 0.
    """
    examples = entry.get("examples") or [entry.get("default")]
    close = get_close_matches(found, [example for example in examples if isinstance(example, str)], n=1)
    chosen = close[0] if close else examples[-1]
    return _shown(chosen) if chosen else None


def _found(fault: Fault) -> str:
    return _shown(redact.shown(fault.path, fault.found))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _dotted(parts: Iterable[str | int]) -> str:
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _join(path, part)
    return path


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
