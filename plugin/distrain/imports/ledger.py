"""Keep track of a source's values, so that none is forgotten.

Each value is handled in one of three ways: it becomes a value of the chart, it needs no value of the chart, or it is
listed as left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from distrain.imports.secrets import quoting
from distrain.redact import HIDDEN

Path = tuple[str | int, ...]

# A key that a path can show without brackets and quotes.
PLAIN = re.compile(r"[\w-]+")

# If a text stands for several paths, this replaces the parts in which the paths differ.
MANY = "|"


def text(path: Path) -> str:
    """Return a path as people write it: spec.containers[0].limits[nvidia.com/gpu].

    The text hides a key that may be a credential.
    """
    shown = ""
    for part in path:
        name = quoting.key(part) if part != MANY else MANY
        if isinstance(part, int) or not PLAIN.fullmatch(name):
            shown += HIDDEN if name == HIDDEN else f"[{name}]"
        else:
            shown += f".{name}" if shown else name
    return shown


def together(paths: Iterable[Path]) -> str:
    """Return several paths in words; paths that differ in one part are joined: spec.{Launcher,Worker}.replicas."""
    distinct = [*dict.fromkeys(paths)]
    places = {index for path in distinct for index in _differing(path, distinct[0])}
    if len(places) != 1 or len({len(path) for path in distinct}) != 1:
        return ", ".join(map(text, distinct))
    [index] = places
    names = ",".join(quoting.key(path[index]) for path in distinct)
    return (
        text((*distinct[0][:index], MANY, *distinct[0][index + 1 :])).replace(f"[{MANY}]", f".{{{names}}}").lstrip(".")
    )


def _differing(path: Path, other: Path) -> Iterator[int]:
    return (index for index, pair in enumerate(zip(path, other, strict=False)) if pair[0] != pair[1])


class Ledger:
    """The data of a source, and the paths that the import has handled.

    If a path is handled, so are all paths below it. If parts of the data were built from another format, `origins` maps
    their paths to paths in the source.
    """

    def __init__(self, data: Any, origins: Mapping[Path, Path] | None = None) -> None:
        self.data = data
        self._origins = origins or {}
        self._settled: set[Path] = set()

    def place(self, path: Path) -> Path:
        """Return the path in the source from which the value at this path of the data was built."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return (*self._origins[path[:length]], *path[length:])
        return path

    def get(self, path: Path, default: Any = None) -> Any:
        """Return the value at a path; return the default if there is no value, or if it is null."""
        found = self.data
        for part in path:
            if isinstance(part, int):
                found = found[part] if isinstance(found, list) and part < len(found) else None
            else:
                found = found.get(part) if isinstance(found, dict) else None
        return default if found is None else found

    def settle(self, *paths: Path) -> None:
        self._settled.update(paths)

    def is_settled(self, path: Path) -> bool:
        return any(path[:length] in self._settled for length in range(len(path) + 1))

    def unsettled(self, below: Path = ()) -> Iterator[Path]:
        """Yield the paths of the values that are not handled yet; null, {} and [] do not count as values."""
        for path in leaves(self.get(below), below):
            if not self.is_settled(path):
                yield path


def leaves(found: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each number and text below a value."""
    if isinstance(found, dict):
        for key, each in found.items():
            yield from leaves(each, (*path, key))
    elif isinstance(found, list):
        for index, each in enumerate(found):
            yield from leaves(each, (*path, index))
    elif found is not None:
        yield path
