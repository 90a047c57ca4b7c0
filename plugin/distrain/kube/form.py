"""Decode objects, and list the parts that do not have Kubernetes' form: one line per mistake, with the field's path.

msgspec reports only the first mistake in an object, and it names Python types. So if msgspec refuses an object, the
object is compared with its struct a second time.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from distrain.kube.decoders import convert
from distrain.kube.quantities import Amounts, Quantity, all_thousandths

T = TypeVar("T")
# The path in an error message of msgspec, without the leading `$`.
PLACE = re.compile(r"at `(?:key in )?`?\$\.?([^`]+)`")
MISSING = re.compile(r"missing required field `(\w+)`")
TOO_DEEP = "it is nested too deep"

NOUNS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping of keys",
    type(None): "null",
}


class FormError(ValueError):
    """An object does not have the form of its kind; `mistakes` has one line for each mistake."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(mistakes))


def converted(found: Any, wanted: type[T]) -> T:
    """Convert parsed YAML to a struct; raise FormError if the YAML does not fit the struct.

    As in Kubernetes, null means that there is no value.
    """
    try:
        return convert(found, wanted)
    except (msgspec.ValidationError, RecursionError):
        found = _without_nulls(found)
    try:
        return convert(found, wanted)
    except (msgspec.ValidationError, RecursionError) as error:
        raise FormError(*(mistakes(found, wanted) or ["it is not of Kubernetes' form"])) from error


def mistakes(found: Any, wanted: Any) -> list[str]:
    """Return a line for each part of parsed JSON or YAML that does not fit a struct."""
    from msgspec import inspect

    return list(_faults(found, inspect.type_info(wanted), ""))


def refuse_odd_amounts(item: Any) -> None:
    """Raise ValueError if an amount in a decoded object is not a valid quantity.

    Decoding alone does not parse amounts.
    """
    if isinstance(item, list):
        for each in item:
            refuse_odd_amounts(each)
    elif isinstance(item, msgspec.Struct):
        for name, is_amounts in _parts(type(item)):
            part = getattr(item, name)
            if is_amounts:
                all_thousandths(part if part is None or isinstance(part, dict) else {name: part})
            elif isinstance(part, list | msgspec.Struct):
                refuse_odd_amounts(part)


@functools.cache
def _parts(struct: type[msgspec.Struct]) -> list[tuple[str, bool]]:
    """Return the names of a struct's fields.

    Each name comes with a flag that tells whether the field contains amounts.
    """
    types = (Amounts, Amounts | None, Quantity | None)
    return [(each.name, each.type in types) for each in msgspec.structs.fields(struct)]


def why(error: Exception) -> str:
    """Return why msgspec cannot decode a text, in the terms of Kubernetes.

    If the text is JSON, include the field's path.
    """
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if not isinstance(error, msgspec.DecodeError):
        return "it is not UTF-8 text" if isinstance(error, UnicodeError) else str(error)
    if not isinstance(error, msgspec.ValidationError):
        return "it is no JSON, or cut off"
    if missing := MISSING.search(str(error)):
        return f"{missing[1]} is missing"
    place = PLACE.search(str(error))
    return f"{place[1]} is of another type" if place else "it is not a mapping of keys"


def json_mistake(content: bytes) -> str | None:
    """Return the position at which a text stops being valid JSON, or None if the text is valid."""
    try:
        json.loads(content)
    except json.JSONDecodeError as error:
        return f"it is not valid JSON at line {error.lineno}, column {error.colno}; it may be cut off"
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except RecursionError:
        return TOO_DEEP
    except ValueError:
        return "it contains a number that is too long"
    return None


def _faults(found: Any, wanted: Any, path: str) -> Iterator[str]:
    from msgspec import inspect

    match _matching(found, wanted):
        case inspect.StructType(fields=fields):
            for each in fields:
                if each.encode_name in found:
                    yield from _faults(found[each.encode_name], each.type, _joined(path, each.encode_name))
        case inspect.DictType(value_type=value):
            for key, part in found.items():
                yield from _faults(part, value, _joined(path, key))
        case inspect.ListType(item_type=item) | inspect.CollectionType(item_type=item):
            for number, part in enumerate(found):
                yield from _faults(part, item, f"{path}[{number}]")
        case None:
            noun = NOUNS.get(type(found), "something else")
            yield f"{path or 'the object'}: found {noun}; it needs {_needed(wanted)}"


def _matching(found: Any, wanted: Any) -> Any:
    """Return the member type of a union that matches the value, or None if no member matches."""
    from msgspec import inspect

    for option in _options(wanted):
        match option:
            case inspect.AnyType() | inspect.RawType():
                return option
            case inspect.StructType() | inspect.DictType():
                fits = isinstance(found, dict)
            case inspect.ListType() | inspect.CollectionType():
                fits = isinstance(found, list)
            case inspect.IntType():
                is_whole = isinstance(found, int) or (isinstance(found, float) and found.is_integer())
                fits = is_whole and not isinstance(found, bool)
            case inspect.FloatType():
                fits = isinstance(found, int | float) and not isinstance(found, bool)
            case inspect.BoolType():
                fits = isinstance(found, bool)
            case inspect.StrType():
                fits = isinstance(found, str)
            case _:
                fits = found is None
        if fits:
            return option
    return None


def _options(wanted: Any) -> tuple[Any, ...]:
    from msgspec import inspect

    return wanted.types if isinstance(wanted, inspect.UnionType) else (wanted,)


def _needed(wanted: Any) -> str:
    from msgspec import inspect

    names: dict[type, str] = {
        inspect.StructType: NOUNS[dict],
        inspect.DictType: NOUNS[dict],
        inspect.ListType: NOUNS[list],
        inspect.CollectionType: NOUNS[list],
        inspect.IntType: NOUNS[int],
        inspect.FloatType: NOUNS[float],
        inspect.BoolType: NOUNS[bool],
        inspect.StrType: NOUNS[str],
    }
    return " or ".join(dict.fromkeys(names[type(each)] for each in _options(wanted) if type(each) in names))


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _without_nulls(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _without_nulls(part) for key, part in found.items() if part is not None}
    return [_without_nulls(part) for part in found] if isinstance(found, list) else found
