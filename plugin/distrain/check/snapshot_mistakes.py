"""List what is wrong in a snapshot that cannot be used: all objects that no API server would return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from distrain.kube import form


def of_list(content: bytes, forms: Mapping[str, type[Any]]) -> list[str]:
    """Return the mistakes of a list of objects; `forms` are the structs of the kinds that are read."""
    if line := form.json_mistake(content):
        return [line]
    found = json.loads(content)
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list):
        return ["it has no list of items"]
    return [mistake for number, item in enumerate(items) for mistake in _of_item(item, f"items[{number}]", forms)]


def error_of(look: Callable[[Any], object], item: Any) -> Exception | None:
    """Return the error of looking at an object, None if there is none."""
    try:
        look(item)
    except (msgspec.DecodeError, ValueError) as error:
        return error
    return None


def _of_item(item: Any, place: str, forms: Mapping[str, type[Any]]) -> Iterator[str]:
    if not isinstance(item, dict) or not isinstance(item.get("kind", ""), str):
        yield f"{place}: it is no object with a kind"
        return
    wanted = forms.get(item.get("kind", ""))
    if wanted is None:
        return
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    shown = name if isinstance(name, str) and name else place
    yield from (f"{item['kind']} {shown}: {mistake}" for mistake in form.mistakes(item, wanted))
