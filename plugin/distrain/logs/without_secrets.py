"""Take the secrets out of what a user attaches to a bug report: objects of the API, and lines of logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distrain.redact import ENTRY, HIDDEN, NAMES, redact, remember

# These repeat the whole object, or say who has changed which field.
LEFT_OUT = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")


def cleaned(found: Any, name: str = "") -> Any:
    """Return an object of the API without values of variables, secrets in commands, and logins in URLs.

    `name` is the field that holds it. The values of variables with secret-like names are remembered, so that they are
    hidden in the logs, too.
    """
    if isinstance(found, dict):
        return {key: _field(key, each, name) for key, each in found.items() if key not in LEFT_OUT}
    if isinstance(found, list) and name in ("command", "args"):
        return _words(found)
    if isinstance(found, list):
        return [_variable(each) if name == "env" else cleaned(each, name) for each in found]
    return redact(found) if isinstance(found, str) else found


def cleaned_line(line: bytes) -> bytes:
    return redact(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _field(key: str, value: Any, parent: str) -> Any:
    if parent in ("annotations", "labels") and NAMES.search(key):
        return HIDDEN
    return cleaned(value, key)


def _variable(entry: Any) -> Any:
    """Return a container's variable without its value; where it comes from another object, that is named."""
    if not isinstance(entry, dict) or not entry.get("value"):
        return cleaned(entry)
    if NAMES.search(str(entry.get("name"))):
        remember(str(entry["value"]))
    return {**entry, "value": HIDDEN}


def _words(words: Sequence[Any]) -> list[Any]:
    """Hide what follows a secret-like name in a command: --token=T, --token T, or TOKEN=T in a script."""
    found: list[Any] = []
    before = ""
    for word in map(str, words):
        is_value = before.startswith("-") and "=" not in before and NAMES.search(before) and not word.startswith("-")
        hidden = ENTRY.sub(lambda entry: entry[0].removesuffix(entry[1]) + HIDDEN, word)
        found.append(HIDDEN if is_value else redact(hidden))
        before = word
    return found
