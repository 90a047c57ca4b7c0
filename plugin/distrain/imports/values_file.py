"""Write the values file of an import: each value with the place that it comes from, then what is left out."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from distrain.imports.credentials import hidden
from distrain.imports.draft import Draft, Setting, Target
from distrain.imports.ffdl import S3_KEYS
from distrain.imports.ledger import Ledger, Path, leaves
from distrain.values.commented_yaml import Entry, Schema, Section, opened, text
from distrain.yaml import yaml_writer

WIDTH = 116
# The largest width of a list that is written on one line.
LINE = 90
MISSING = object()


def written(draft: Draft, source: str, file: str, defaults: Mapping[str, Any], schema: Schema) -> str:
    """Return the file's text. Values that equal the chart's defaults are listed at the end of the file."""
    section = Section(head=[*_head(draft, source, file)])
    same: list[str] = []
    for target, setting in draft.settings.items():
        if _default(defaults, target) == setting.value:
            same.append(
                f"{'.'.join(target)}: {_short(setting.value)}  # {hidden(', '.join(dict.fromkeys(setting.origins)))}"
            )
        else:
            _put(section, target, setting)
    section.sort(schema)
    for entry in section.entries[1:]:
        entry.above.append("")
    section.tail = [*_tail(draft, same)]
    return text(section)


def _default(defaults: Mapping[str, Any], target: Target) -> Any:
    found: Any = defaults
    for part in target:
        if not isinstance(found, dict) or part not in found:
            return MISSING
        found = found[part]
    return found


def _put(section: Section, target: Target, setting: Setting) -> None:
    for part in target[:-1]:
        entry = section.get(part)
        if entry is None:
            entry = Entry(part, [], [_key(part)], Section())
            section.entries.append(entry)
        section = opened(entry)
    section.entries.append(Entry(target[-1], [], [*_lines(target[-1], setting)]))


def _key(name: str) -> str:
    return _dump({name: None}).removesuffix(" null")


def _lines(name: str, setting: Setting) -> Iterator[str]:
    """Yield the lines of a value. Each item or key has a comment that says where in the source it comes from."""
    value = setting.value
    if setting.is_split and isinstance(value, dict):
        yield _key(name)
        for (key, each), origin in zip(value.items(), setting.origins, strict=True):
            yield from _indented(_remarked(_dump({key: each}), origin))
    elif isinstance(value, list) and value and not _is_short(value):
        origins = setting.origins if setting.is_split else ("",) * len(value)
        yield from _remarked(_key(name), "" if setting.is_split else ", ".join(setting.origins))
        for dumped, origin in zip(_items(value), origins, strict=True):
            yield from _indented(_remarked(dumped, origin))
    else:
        remark = ", ".join(dict.fromkeys(setting.origins))
        dumped = f"{_key(name)} {_flow(value)}" if _is_short(value) else _dump({name: value})
        yield from _remarked(dumped, remark)


def _items(value: list[Any]) -> list[str]:
    """Return the lines of each item of a list.

    The whole list is dumped at once, because each call of PyYAML takes about a millisecond.
    """
    parts = [*_parts(value)]
    if len(set(map(id, parts))) < len(parts):
        # If two items shared a part, PyYAML would write an alias for the second.
        return [_dump([each]) for each in value]
    return re.split(r"\n(?=- )", _dump(value))


def _parts(value: Any) -> Iterator[Any]:
    """Yield the lists and maps in a value."""
    if isinstance(value, list | dict):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _parts(each)


def _is_short(value: Any) -> bool:
    """Tell whether a value is a list of words that is short enough for one line."""
    return (
        isinstance(value, list)
        and len(value) <= LINE
        and not any(isinstance(each, list | dict) for each in value)
        and len(_flow(value)) <= LINE
    )


def _flow(value: list[Any]) -> str:
    return yaml_writer.dump(value, default_flow_style=True, allow_unicode=True, width=100_000).rstrip("\n")


def _dump(value: Any) -> str:
    return yaml_writer.dump(value, blocks=True, allow_unicode=True, width=100_000).rstrip("\n")


def _remarked(dumped: str, origin: str) -> Iterator[str]:
    first, *others = dumped.split("\n")
    yield f"{first}  # {_one_line(hidden(origin))}" if origin else first
    yield from others


def _indented(lines: Iterator[str]) -> Iterator[str]:
    yield from (f"  {line}" if line else "" for line in lines)


def _one_line(words: str) -> str:
    return "".join(each if each.isprintable() else " " for each in words)


def _short(value: Any) -> str:
    return _flow([value])[1:-1]


def _head(draft: Draft, source: str, file: str) -> Iterator[str]:
    yield from _wrapped(_one_line(f"Imported by `helm distrain import` from {source}."))
    yield "#"
    yield from (f"#   {line}" for line in secret_command(draft))
    file = _one_line(shlex.quote(file))
    yield f"#   helm distrain check -f {file}{draft.namespace_flag}"
    yield f"#   helm distrain install {draft.name} -f {file}{draft.namespace_flag} --wait"
    yield "#"
    yield from _wrapped(
        "Beside each value is the place that it comes from. What needs a look, and what is left out, is at the end."
    )


def secret_command(draft: Draft) -> list[str]:
    """Return the lines of the kubectl command that creates the Secret; an empty list if the values need no Secret."""
    keys = [key for key in draft.credentials.keys if key in _needed(draft)]
    if not keys:
        return []
    first = f"kubectl create secret generic {draft.credentials.secret}{draft.namespace_flag} \\"
    words = [f"  --from-literal={key}=..." for key in keys]
    return [first, *(f"{word} \\" for word in words[:-1]), words[-1]]


def _needed(draft: Draft) -> set[str]:
    """Return the keys of the Secret that the values use.

    If a credential occurs only in parts of the source that were not imported, its key is not returned.
    """
    values, secret = Ledger(draft.values()), draft.credentials.secret
    found = {str(values.get(path)) for path in leaves(values.data) if _is_key(values, path, secret)}
    return found | ({*S3_KEYS} if values.get(("s3", "secretName")) == secret else set())


def _is_key(values: Ledger, path: Path, secret: str) -> bool:
    return path[-2:] == ("secretKeyRef", "key") and values.get((*path[:-1], "name")) == secret


def _tail(draft: Draft, same: list[str]) -> Iterator[str]:
    for title, items in (
        ("To look at:", draft.notes),
        ("Left out:", [f"{place}: {why}" for place, why in draft.lost]),
        ("As in the source, and the chart's default:", same),
    ):
        if items:
            yield ""
            yield f"# {title}"
            for item in items:
                yield from _wrapped(_one_line(item), "# - ", "#   ")


def _wrapped(words: str, first: str = "# ", others: str = "# ") -> list[str]:
    return textwrap.wrap(
        words, WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
