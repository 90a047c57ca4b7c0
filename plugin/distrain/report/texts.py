"""Make the texts of a record suitable for a page: short, and without secrets."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import structs

from distrain.record.read import Line
from distrain.redact import redact, shown
from distrain.without_secrets import cleaned

# Longer texts, such as a list of a thousand names, are cut to LONGEST characters.
LONGEST = 300
SPACES = re.compile(r"(\s+)")


def clean(line: Line) -> Line:
    """Return a line of a record with its texts shortened and without secrets.

    The trainer's settings in a `start` line stay unchanged; `of_value` shortens each of them.
    """
    found = {name: getattr(line, name) for name in line.__struct_fields__}
    return structs.replace(line, **{name: text(each) for name, each in found.items() if isinstance(each, str)})


def text(words: str, most: int = LONGEST) -> str:
    return cut(_hidden(words), most)


def of_value(path: str, value: Any, most: int = LONGEST) -> str:
    """Return a setting of the trainer as text, shortened and without secrets."""
    found = _without_flags(shown(path, value))
    return cut(found if isinstance(found, str) else json.dumps(found), most)


def cut(words: str, most: int = LONGEST) -> str:
    return words if len(words) <= most else f"{words[:most]} ..."


def _without_flags(value: Any) -> Any:
    """In a list of arguments or in a text, hide what follows a flag whose name looks like a secret's."""
    if isinstance(value, dict):
        return {name: _without_flags(each) for name, each in value.items()}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [_hidden(word) for word in cleaned(value, "args")]
    if isinstance(value, list):
        return [_without_flags(each) for each in value]
    return _hidden(value) if isinstance(value, str) else value


def _hidden(words: str) -> str:
    """Return a text without logins in URLs, and without what follows a flag such as --token."""
    parts = SPACES.split(redact(words))
    parts[::2] = cleaned(parts[::2], "args")
    return "".join(parts)
