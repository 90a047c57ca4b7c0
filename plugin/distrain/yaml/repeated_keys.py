"""Find keys that a YAML mapping contains twice. Helm would use the last one without a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

# libyaml's parser is ten times as fast as PyYAML's own.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# A mapping may contain this key several times, because it may merge several other mappings.
MERGE = "<<"


class _Open:
    """A mapping or a list whose end has not been read yet."""

    def __init__(self, path: str, *, is_block: bool) -> None:
        self.path, self.is_block = path, is_block
        self.lines: dict[str, int] = {}
        # The key whose value the parser reads next, or None if it reads a key next.
        self.key: str | None = None
        self.entries = 0

    def next_path(self) -> str:
        """Return the path of the value that is read next."""
        if not self.is_block:
            return f"{self.path}[{self.entries}]"
        return f"{self.path}.{self.key}" if self.path else str(self.key)

    def pass_over(self) -> None:
        """Record the end of a value, or the end of a key that is itself a list or a mapping."""
        self.entries += 1
        self.key = "" if self.is_block and self.key is None else None


def mistakes(text: str) -> list[str]:
    """Return a line per key that a mapping has twice: its path, both lines, and the next step.

    Raises YAMLError if the text is not YAML.
    """
    return [
        f"{key} appears twice, in {_lines(first, second)}; remove one of them"
        for key, first, second in repeated_keys(text)
    ]


def _lines(first: int, second: int) -> str:
    return f"line {first}" if first == second else f"lines {first} and {second}"


def repeated_keys(text: str) -> Iterator[tuple[str, int, int]]:
    """For each key that a mapping contains twice, yield its path and the lines of both.

    Two documents may contain the same key.

    Raises YAMLError if the text is not YAML.
    """
    opened: list[_Open] = []
    for event in yaml.parse(text, Loader=_Loader):
        top = opened[-1] if opened else None
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append(_Open(top.next_path() if top else "", is_block=isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
            if opened:
                opened[-1].pass_over()
        elif top and isinstance(event, yaml.ScalarEvent) and top.is_block and top.key is None:
            assert event.start_mark
            top.key, line = event.value, event.start_mark.line + 1
            if event.value != MERGE and event.value in top.lines:
                yield top.next_path(), top.lines[event.value], line
            top.lines.setdefault(event.value, line)
        elif top and isinstance(event, yaml.NodeEvent):
            top.pass_over()
