"""List why a snapshot cannot be used: the objects in it that an API server would never return."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from distrain.kube import form


def of_list(content: bytes, forms: Mapping[str, type[Any]]) -> list[str]:
    """Return the mistakes in a list of objects; `forms` are the structs of the kinds that are read."""
    if line := form.json_mistake(content):
        return [line]
    found = json.loads(content)
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list):
        return ["it has no list of items"]
    return [mistake for number, item in enumerate(items) for mistake in _of_item(item, f"items[{number}]", forms)]


def error_of(look: Callable[[Any], object], item: Any) -> Exception | None:
    """Return the error that `look` raises for an object, or None if it raises none."""
    try:
        look(item)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return error
    return None


def again(items: Sequence[Any]) -> dict[int, int]:
    """For each object that repeats an earlier object's name, map its index to the index of the earlier object."""
    # Compare only the names first, because a file may have 150,000 pods.
    if len({item.metadata.name for item in items}) == len(items):
        return {}
    times = Counter([item.metadata.name for item in items])
    shared = ((place, item.metadata) for place, item in enumerate(items) if times[item.metadata.name] > 1)
    first: dict[tuple[str, str], int] = {}
    earlier = {place: first.setdefault((each.namespace, each.name), place) for place, each in shared if each.name}
    return {place: before for place, before in earlier.items() if before != place}


def unlike(kind: str, items: Sequence[Any], places: Mapping[int, int]) -> Iterator[str]:
    """Name each object that differs from the first object of the same name.

    `places` maps the index of each repeated object to the index of the first one; the function `again` returns it.
    """
    for place, first in places.items():
        metadata = items[place].metadata
        if _tree(items[place]) != _tree(items[first]):
            yield f"{kind} {metadata.name}" + f" of namespace {metadata.namespace}" * bool(metadata.namespace)


def _tree(item: Any) -> Any:
    """Return an object's fields in decoded form, so that white space in its encoded parts makes no difference."""
    return msgspec.json.decode(msgspec.json.encode(item))


def _of_item(item: Any, place: str, forms: Mapping[str, type[Any]]) -> Iterator[str]:
    if not isinstance(item, dict) or not isinstance(item.get("kind", ""), str):
        yield f"{place}: it is not an object with a kind"
        return
    wanted = forms.get(item.get("kind", ""))
    if wanted is None:
        return
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    shown = name if isinstance(name, str) and name else place
    yield from (f"{item['kind']} {shown}: {mistake}" for mistake in form.mistakes(item, wanted))
