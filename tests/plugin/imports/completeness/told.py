"""Tell whether the import carries a value of the source over, or lists its path among the left-out values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.identify import Found
from distrain.imports.ledger import Path, leaves, text
from distrain.imports.read import finished, read
from tests.plugin.imports.comparison import spelled_out
from tests.plugin.imports.drafts import FILE, accepting

Ends = tuple[Path, ...]
UNIQUE = re.compile(r"zq\d+x|7\d{5}")


def untold(draft: Draft, job: dict[str, Any], path: Path, needless: Ends = ()) -> Iterator[str]:
    """Yield the path of each value below `path` that the import neither carries over nor lists.

    `needless` contains ends of paths. Paths that end like one of them are skipped.
    """
    values = json.dumps(draft.values())
    places = [each for place, _ in draft.lost for each in spelled_out(place)]
    given = [origin for setting in draft.settings.values() for origin in setting.origins]
    origins = [each for origin in given for each in spelled_out(origin)]
    found = [leaf for leaf in leaves(_get(job, path), path) if not any(leaf[-len(end) :] == end for end in needless)]
    for leaf in found:
        shown, value = text(leaf), str(_get(job, leaf))
        carried = value in values if UNIQUE.fullmatch(value) else any(_is_at(shown, origin) for origin in origins)
        named = any(_is_at(shown, place) for place in places) or any(shown in note for note in draft.notes)
        if not carried and not named:
            yield f"{shown} = {value}"


def untold_of_job(job: dict[str, Any], path: Path, needless: Ends = ()) -> list[str]:
    """Import a job. Return those parts of the value at a path that the import neither carries over nor lists.

    A path that a refusal names counts as listed.
    """
    try:
        draft = read(Found(job), FILE)
        finished(draft, accepting, FILE)
    except ValuesError as refusal:
        return [] if all(_names(each, path) for each in refusal.messages) else [*refusal.messages]
    return [*untold(draft, job, path, needless)]


def _names(message: str, path: Path) -> bool:
    """Tell whether a refusal names this path or a block that contains it."""
    return any(f" {text(path[:length])}" in message for length in (len(path), len(path) - 1))


def _is_at(path: str, place: str) -> bool:
    """Tell whether a path in the list is this path, or that of a block that contains it.

    In the list of left-out values, a remark may follow a path. It is ignored here.
    """
    place = re.split(r": | and |, without", place)[0]
    return bool(place) and re.fullmatch(rf"{re.escape(place)}([.\[].*)?", path) is not None


def _get(found: Any, path: Path) -> Any:
    for part in path:
        found = found[part]
    return found
