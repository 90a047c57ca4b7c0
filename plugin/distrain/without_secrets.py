"""Remove secrets from everything about a run that other people read: API objects, log lines, texts of a record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from distrain.redact import ENTRY, HIDDEN, NAMES, redact, remember

# Fields that repeat the whole object, or that say who has changed which field.
LEFT_OUT = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
# These fields contain the command and arguments of a program.
COMMANDS = ("command", "args")
# Users and drivers choose the keys of these maps, so each value may be a secret.
FREE = ("annotations", "labels", "options", "volumeAttributes")
# The names of these Kubernetes fields look like secrets, but the fields contain only the name of an object, a label or
# a file.
PLAIN = ("key", "topologyKey", "secretName", "secretNamespace", "secretFile", "keyring")
# These fields contain an image name. The tag of the image follows a ":" and must not be mistaken for a secret value.
IMAGES = ("image", "imageID")
# A value: one word, or several words in quotes. The value of an HTTP header may begin with a scheme such as Bearer.
VALUE = r"((?:(?:Basic|Bearer)\s+)?(?:\"[^\"]*\"|'[^']*'|[^\s,;]+))"
# A name that suggests a secret, and its value, in a text: NAME=VALUE, NAME: VALUE, or --NAME VALUE.
PAIR = re.compile(rf"(?:(?:{NAMES.pattern}|authorization)[\w.\-]*[\"']?\s*[:=])\s*{VALUE}", re.IGNORECASE)
FLAG = re.compile(rf"(?<![\w\-])--?[\w.\-]*(?:{NAMES.pattern})[\w.\-]*[ \t]+(?!-){VALUE}", re.IGNORECASE)


def cleaned(found: Any, name: str = "", parent: str = "") -> Any:
    """Return an API object without values of variables, secrets in texts and headers, and logins in URLs.

    `name` is the name of the field that contains the object, and `parent` is the name of the next outer field. If a
    variable has a secret-like name, its value is remembered, so that it is hidden in the logs, too.
    """
    if isinstance(found, dict):
        return {key: _field(key, each, name) for key, each in found.items() if key not in LEFT_OUT}
    if isinstance(found, list) and name in COMMANDS:
        return _words(found)
    if isinstance(found, list):
        return [_variable(each) if name == "env" else cleaned(each, name, parent) for each in found]
    return _text(found, name, parent) if isinstance(found, str) else found


def cleaned_line(line: bytes) -> bytes:
    return redact(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _field(key: str, value: Any, parent: str) -> Any:
    is_secret = NAMES.search(key) and (parent in FREE or key not in PLAIN)
    if value and isinstance(value, str) and (is_secret or (parent, key) == ("httpHeaders", "value")):
        return HIDDEN
    return cleaned(value, key, parent)


def _text(found: str, name: str, parent: str) -> str:
    if (parent, name) == ("httpGet", "path"):
        found = redact(re.sub(r"\?.+", f"?{HIDDEN}", found))
    return redact(found) if name in IMAGES else _without_pairs(found)


def _without_pairs(found: str) -> str:
    for pattern in (FLAG, PAIR):
        found = pattern.sub(lambda pair: pair[0].removesuffix(pair[1]) + HIDDEN, found)
    return redact(found)


def _variable(entry: Any) -> Any:
    """Return a container's variable without its value. If the value comes from another object, name that object."""
    if not isinstance(entry, dict) or not entry.get("value"):
        return cleaned(entry)
    if NAMES.search(str(entry.get("name"))):
        remember(str(entry["value"]))
    return {**entry, "value": HIDDEN}


def _words(words: Sequence[Any]) -> list[Any]:
    """In a command, hide what follows a secret-like name: --token=T, --token T, or TOKEN=T in a script."""
    found: list[Any] = []
    before = ""
    for word in map(str, words):
        is_value = before.startswith("-") and "=" not in before and NAMES.search(before) and not word.startswith("-")
        # After `TOKEN=` the rest of the line is hidden, because a script may use any kind of quotes.
        hidden = ENTRY.sub(_without_value, _without_pairs(word))
        found.append(HIDDEN if is_value else redact(hidden))
        before = word
    return found


def _without_value(entry: re.Match[str]) -> str:
    # A word such as "KeyError:" looks like the name of a secret, but no value follows it.
    return entry[0].removesuffix(entry[1]) + HIDDEN if entry[1] else entry[0]
