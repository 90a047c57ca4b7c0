"""Make the texts of a record fit for a page: short, and without secrets."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import structs

from distrain.record.read import Line
from distrain.redact import redact, shown
from distrain.without_secrets import cleaned

# Longer texts, such as a list of a thousand names, are cut to this length.
LONGEST = 300
SPACES = re.compile(r"(\s+)")


def clean(line: Line) -> Line:
    """Return a line whose texts are cut, and without secrets. `of_value` handles the values of a start."""
    found = {name: getattr(line, name) for name in line.__struct_fields__}
    return structs.replace(line, **{name: text(each) for name, each in found.items() if isinstance(each, str)})


def text(words: str, most: int = LONGEST) -> str:
    return cut(_hidden(words), most)


def of_value(path: str, value: Any, most: int = LONGEST) -> str:
    """Return the text of a value of the trainer, cut, and without secrets."""
    found = _without_flags(shown(path, value))
    return cut(found if isinstance(found, str) else json.dumps(found), most)


def cut(words: str, most: int = LONGEST) -> str:
    return words if len(words) <= most else f"{words[:most]} ..."


def _without_flags(value: Any) -> Any:
    """Hide what follows a secret-like flag, in a list of arguments and in a text."""
    if isinstance(value, dict):
        return {name: _without_flags(each) for name, each in value.items()}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [_hidden(word) for word in cleaned(value, "args")]
    if isinstance(value, list):
        return [_without_flags(each) for each in value]
    return _hidden(value) if isinstance(value, str) else value


def _hidden(words: str) -> str:
    """Return a text without logins in URLs, and without what follows a secret-like flag such as --token."""
    parts = SPACES.split(redact(words))
    parts[::2] = cleaned(parts[::2], "args")
    return "".join(parts)
