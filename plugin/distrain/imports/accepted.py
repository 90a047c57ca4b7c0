"""Render the chart with the values of an import.

If the chart refuses a value, remove the value and report it as not imported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.credentials import Credentials, hidden, in_words, is_credential
from distrain.imports.draft import Draft, Setting, Target
from distrain.imports.ledger import Ledger, leaves
from distrain.imports.secrets import quoting
from distrain.redact import HIDDEN, SHORTEST

# A function that returns the chart's messages about invalid values, or an empty list if the chart renders the values.
Judge = Callable[[dict[str, Any]], Sequence[str]]
# Values that the chart needs to render a job.
ESSENTIAL = {
    *(("image", "repository"), ("workers", "replicas"), ("command",), ("framework",), ("strategy",), ("job", "kind")),
    *(("job", "elastic"), ("image", "tag")),
}
# Each round removes at least one value, and a job has about a hundred values, so 200 rounds are enough.
ROUNDS = 200
PATH = re.compile(r"(?:distrain: )?([A-Za-z][^\s:]*): (.*)", re.DOTALL)
# Users and drivers choose the keys of these maps, so any key may be the name of a credential.
FREE = {
    "annotations",
    "labels",
    "podLabels",
    "podAnnotations",
    "commonLabels",
    "commonAnnotations",
    "options",
    "volumeAttributes",
}


def drop_refused(draft: Draft, judge: Judge, origin: str) -> None:
    """Remove the values that the chart refuses, until it accepts the rest.

    Raise ValuesError if the chart refuses the job even without these values.
    """
    for _ in range(ROUNDS):
        messages = judge(draft.values())
        if not messages:
            return
        seen: set[Target] = set()
        for message in messages:
            _remove(draft, message, origin, seen)
        if not seen:
            values = draft.values()
            raise ValuesError(*(f"{origin}: {_without_values(message, values)}" for message in messages))
    raise ValuesError(f"{origin}: the chart refuses the values made from it; import a simpler job")


def _remove(draft: Draft, message: str, origin: str, seen: set[Target]) -> None:
    found = PATH.fullmatch(message)
    target = _target(draft, found[1]) if found else None
    if not found or target is None or target in seen:
        return
    path, setting = found[1], draft.settings[target]
    words = _without_values(found[2], draft.values())
    if target in ESSENTIAL:
        raise ValuesError(f"{origin}: {setting.origins[0]}: {words}")
    seen.add(target)
    key = _item(setting, path[len(".".join(target)) :], found[2])
    why = f"the chart refuses it: {path}: {words}"
    if key is None:
        draft.drop(", ".join(dict.fromkeys(setting.origins)), why)
        del draft.settings[target]
    else:
        draft.drop(remove_item(draft, target, key), why)


def _without_values(words: str, values: dict[str, Any]) -> str:
    """Return the chart's message, with each value hidden that may be a credential."""
    found = {str(Ledger(values).get(path)) for path in leaves(values)}
    for text in sorted(found, key=len, reverse=True):
        if len(text) >= SHORTEST and quoting.value(text) != text:
            words = words.replace(text, HIDDEN)
    return hidden(words)


def _target(draft: Draft, path: str) -> Target | None:
    """Return the path of the imported value that a message of the chart is about.

    `path` is the path that the message names. If it lies in several imported values, return the longest of these
    values' paths. If it lies in no imported value, return the path of an imported value below `path`.
    """
    for target in sorted(draft.settings, key=len, reverse=True):
        dotted = ".".join(target)
        if path == dotted or path.startswith((f"{dotted}.", f"{dotted}[")):
            return target
    below = [target for target in draft.settings if ".".join(target).startswith(f"{path}.")]
    return below[0] if below else None


def _item(setting: Setting, rest: str, words: str) -> str | int | None:
    """Return the key or index of the item that a message is about; None if it is about the whole value."""
    if isinstance(setting.value, list):
        index = re.match(r"\[(\d+)\]", rest)
        return int(index[1]) if index and int(index[1]) < len(setting.value) else None
    if isinstance(setting.value, dict):
        keys = [key for key in setting.value if rest.startswith(f".{key}") or words.startswith(f"{key} ")]
        return max(keys, key=len) if keys else None
    return None


def remove_item(draft: Draft, target: Target, key: str | int) -> str:
    """Remove an item of a list or a key of a map, and return its place in the source."""
    setting = draft.settings[target]
    number = key if isinstance(key, int) else [*setting.value].index(key)
    origin = setting.origins[number] if setting.is_split else setting.origins[0]
    if setting.is_split:
        setting.origins = (*setting.origins[:number], *setting.origins[number + 1 :])
    value = setting.value.copy()
    del value[key]
    setting.value = value
    if not value:
        del draft.settings[target]
    return origin


def drop_doubled(draft: Draft) -> None:
    """Remove a variable if a later variable has the same name, because Kubernetes and shells use the last one."""
    for target, setting in [*draft.settings.items()]:
        names = [each.get("name") for each in setting.value] if target[-1] == "env" else []
        for index in reversed(range(len(names))):
            if names[index] in names[index + 1 :]:
                draft.drop(remove_item(draft, target, index), f"{names[index]} is set again later, and the last counts")


def drop_credentials(draft: Draft) -> None:
    """Remove values that still look like credentials: in annotations, in options of drivers, and in any text."""
    why = "it looks like a credential; put it into a Secret"
    for target, setting in [*draft.settings.items()]:
        value = setting.value
        if target == ("command",) or (target[0] == "image" and not isinstance(value, dict)):
            continue
        if isinstance(value, dict | list):
            held = _held(draft.credentials, value, target[-1])
            for key in reversed(held):
                draft.drop(remove_item(draft, target, key), why)
        elif _holds(draft.credentials, value, target[-1], target[-2] if len(target) > 1 else ""):
            draft.drop(", ".join(setting.origins), why)
            del draft.settings[target]


def _held(credentials: Credentials, value: dict[str, Any] | list[Any], name: str) -> list[Any]:
    """Return the keys or indexes of the items that contain a credential.

    If a credential in a list of words is the value of an option, also return the index of the option.
    """
    pairs = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
    held = {key for key, each in pairs if _holds(credentials, each, str(key), name)}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        secret = {index for index, found in enumerate(in_words(value)) if found}
        held |= secret | {index - 1 for index in secret if index and value[index - 1].startswith("-")}
    return [key for key, _ in pairs if key in held]


def _holds(credentials: Credentials, found: Any, name: str, parent: str) -> bool:
    """Tell whether a value contains a credential. In a map, the keys are searched, too."""
    if isinstance(found, dict):
        pair = found.get("name"), found.get("value")
        if all(isinstance(each, str) for each in pair) and is_credential(*map(str, pair)):
            return True
        return any(_holds(credentials, each, str(key), name) for key, each in found.items())
    if isinstance(found, list):
        if all(isinstance(each, str) for each in found) and any(in_words(found)):
            return True
        return any(_holds(credentials, each, "", name) for each in found)
    if not isinstance(found, str):
        return False
    if name == "image":
        # An image's name contains a credential only if a user name and a password precede the registry. A tag such as
        # token:1 is harmless.
        return bool(re.search(r"@(?!\w+:[0-9a-f]{32})", found))
    return (parent in FREE and is_credential(name, found)) or credentials.holds(found)
