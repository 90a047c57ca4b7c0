"""Edit values files without losing their comments. The comment lines above a key belong to the key.

PyYAML finds the first and the last line of each key, and this module moves these lines unchanged. So quotes,
indentation and every comment remain as the user wrote them. (ruamel.yaml stores the comment above a key with the
previous key. So when a key is inserted or moved, the key could lose its comment or get another key's comment.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import yaml
from msgspec import Struct, field

from distrain.errors import ValuesError
from distrain.yaml import yaml_writer
from distrain.yaml.yaml_loader import mistake

# The line breaks that PyYAML recognizes in a text.
LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
INDENT = 2
ALIAS = re.compile(r"\s*:\s*\*[^\s,\]}]+")
# Finds what may be an alias in the lines of a key.
ANY_ALIAS = re.compile(r"[\s:,\[{]\*[^\s,\]}]")
MERGE = "<<"
# A line after the last key: the end of the document, a comment or an empty line.
LAST_LINE = re.compile(r"\s*(#|$)|\.\.\.\s*(#|$)")

Schema = Mapping[str, Any]


class Entry(Struct):
    """A key with all of its lines, without its parent's indentation: the comments above it, and its own lines.

    If the value is a mapping in block style, and the schema knows it, `lines` has only the line of the key, and
    `section` has the content. `is_close` is true for a key that may lack an empty line above it: a new key, or the
    file's first key. Such a key gets an empty line above it if the file has empty lines between its keys.
    """

    name: str
    above: list[str]
    lines: list[str]
    section: Section | None = None
    is_close: bool = False

    @property
    def remark(self) -> str:
        """Return the comment beside a value without the `#`, or an empty string if there is no comment."""
        found = None if self.section else re.search(r"\s#\s*(.*)$", self.lines[0])
        return found[1] if found else ""


class Section(Struct):
    """The keys of a mapping.

    `head` are the comments at the top that are about the whole file. `tail` are the comments after the last key.
    """

    entries: list[Entry] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    indent: int = INDENT

    def get(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    def find(self, path: Sequence[str]) -> Entry | None:
        entry = self.get(path[0])
        if entry is None or len(path) == 1:
            return entry
        return entry.section.find(path[1:]) if entry.section else None

    def set(self, path: Sequence[str], value: Any, remark: str = "") -> None:
        """Set the value at a path.

        Comments above the key remain, and `remark` replaces the comment beside the value.
        """
        entry = self.get(path[0])
        if len(path) > 1:
            if entry is None:
                entry = Entry(path[0], [], [f"{path[0]}:"], Section(), is_close=True)
                self.entries.append(entry)
            opened(entry).set(path[1:], value, remark)
            return
        dumped = yaml_writer.dump({path[0]: value}, allow_unicode=True, width=1000)
        lines = dumped.rstrip("\n").split("\n")
        if remark:
            lines[0] += f"  # {remark}"
        if entry is None:
            self.entries.append(Entry(path[0], [], lines, is_close=True))
        else:
            entry.lines, entry.section = [*lines, *_comments_at_end(entry.lines)], None

    def remove(self, path: Sequence[str]) -> None:
        """Remove a key. If the key's section is then empty, remove the section, too."""
        entry = self.get(path[0])
        if entry is None:
            return
        if len(path) > 1 and entry.section:
            entry.section.remove(path[1:])
        if len(path) == 1 or (entry.section and not entry.section.entries):
            self.entries.remove(entry)

    def merge(self, other: Section) -> None:
        """Merge a later file into this file by Helm's rules: mappings are merged, and all other values are replaced."""
        self.tail += other.tail
        for entry in other.entries:
            mine = self.get(entry.name)
            if mine is None:
                self.entries.append(entry)
            elif _is_mapping(mine) and _is_mapping(entry):
                mine.above += entry.above
                opened(mine).merge(opened(entry))
            else:
                entry.above = mine.above + entry.above
                self.entries[self.entries.index(mine)] = entry

    def write_out(self, values: Mapping[str, Any]) -> None:
        """Replace each value that contains an alias by the same value without aliases, from `values`."""
        for entry in self.entries:
            value = values.get(entry.name)
            if entry.section and isinstance(value, dict) and not entry.section.get(MERGE):
                entry.section.write_out(value)
            elif entry.name in values and (entry.section or ANY_ALIAS.search("\n".join(entry.lines))):
                self.set([entry.name], value, entry.remark)

    def sort(self, schema: Schema) -> None:
        """Sort the keys in the order of the schema. Keys that the schema does not name, such as x-*, come first."""
        properties = schema.get("properties", {})
        order = list(properties)
        self.entries.sort(key=lambda entry: order.index(entry.name) if entry.name in properties else -1)
        for entry in self.entries:
            if entry.section and entry.name in properties:
                entry.section.sort(properties[entry.name])

    def lines(self) -> Iterator[str]:
        for entry in self.entries:
            yield from entry.above
            yield from entry.lines
            if entry.section:
                margin = " " * entry.section.indent
                yield from (margin + line if line.strip() else "" for line in entry.section.lines())
        yield from self.tail


def parse(text: str, schema: Schema) -> Section:
    """Parse a YAML document that is a mapping. Raise ValuesError for any other text."""
    lines = _without_marks(LINE_END.split(text.removeprefix("\ufeff")))
    try:
        node = yaml.compose("\n".join(lines), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValuesError(f"values: {mistake(error, text)}") from error
    if node is None:
        return Section(head=_trimmed(lines))
    if not isinstance(node, yaml.MappingNode):
        raise ValuesError("values: the file contains no keys; write it as KEY: VALUE lines")
    if node.flow_style:
        return _unfolded(node, "\n".join(lines))
    section = _section(node, lines, 0, len(lines), schema)
    section.entries[0].is_close = True
    section.head, section.entries[0].above = _split_head(section.entries[0].above)
    section.tail = _trimmed(section.tail)
    return section


def _without_marks(lines: Sequence[str]) -> list[str]:
    """Return the lines without `---`, and without a `...` after the last key."""
    kept = [line for line in lines if not re.match(r"---\s*(#|$)", line)]
    last = len(kept) - sum(1 for _ in takewhile(LAST_LINE.match, reversed(kept)))
    return kept[:last] + [line for line in kept[last:] if not line.startswith("...")]


def holds_several_documents(text: str) -> bool:
    return sum(isinstance(event, yaml.DocumentStartEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)) > 1


def text(section: Section) -> str:
    """Return the text of the file. A new key at the top level gets an empty line above it if other keys have one."""
    spaced = any("" in entry.above for entry in section.entries)
    for number, entry in enumerate(section.entries):
        if not number:
            entry.above = _trimmed(entry.above)
        elif spaced and entry.is_close and entry.above[:1] != [""]:
            entry.above.insert(0, "")
    lines = [*section.head, *([""] if section.head and section.entries else []), *section.lines()]
    return "\n".join(_trimmed(lines)) + "\n"


def opened(entry: Entry) -> Section:
    """Return the entry's block mapping. If the entry is in flow style (`{a: 1}`), convert it first."""
    if entry.section is None:
        lines = [_stubs(entry), *entry.lines]
        node = _value_node(lines)
        key, anchor = entry.lines[0].partition(":")[0], re.match(r"[^:]*:\s*(&\S+)(\s|$)", entry.lines[0])
        if alias := _alias(entry):
            entry.section = Section([Entry(MERGE, [], [f"{MERGE}: {alias}"])])
        elif isinstance(node, yaml.MappingNode):
            block = _is_block(node)
            entry.section = _section(node, lines, 2, len(lines), {}) if block else _unfolded(node, "\n".join(lines))
        else:
            entry.section = Section()
        entry.lines = [f"{key}:{' ' + anchor[1] if anchor else ''}"]
    return entry.section


def _section(node: yaml.MappingNode, lines: list[str], start: int, end: int, schema: Schema) -> Section:
    """Split the lines of a mapping, from `start` to `end`, into entries."""
    column = node.value[0][0].start_mark.column
    section = Section(indent=column)
    firsts = [key.start_mark.line for key, _ in node.value]
    above = start
    for (key, value), first, following in zip(node.value, firsts, [*firsts[1:], end], strict=True):
        until = _end_of_entry(lines, first, following, column)
        entry = Entry(str(key.value), _dedented(lines[above:first], column), _dedented(lines[first:until], column))
        properties = schema.get("properties", {}).get(entry.name, {})
        if "properties" in properties and _is_block(value) and value.start_mark.line > first:
            entry.lines = entry.lines[:1]
            entry.section = _section(value, lines, first + 1, until, properties)
            entry.section.indent -= column
        section.entries.append(entry)
        above = until
    section.tail = _dedented(lines[above:end], column)
    return section


def _end_of_entry(lines: list[str], first: int, following: int, column: int) -> int:
    """Return the line at which the comments above the next key begin.

    A comment with a deeper indentation belongs to the entry above it.
    """
    end = following
    while end > first + 1:
        line = lines[end - 1]
        words = line.lstrip()
        if words and (not words.startswith("#") or len(line) - len(words) > column):
            break
        end -= 1
    return end


def _is_block(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style


def _unfolded(node: yaml.MappingNode, source: str) -> Section:
    """Convert a mapping in flow style to a section that has one line for each key.

    A comment inside the braces is moved above the next key.
    """
    section, place = Section(), node.start_mark.index
    for key, value in node.value:
        above = re.findall(r"#.*", source[place : key.start_mark.index])
        first, place = key.start_mark.index, max(key.end_mark.index, value.end_mark.index)
        if alias := ALIAS.match(source, key.end_mark.index):
            # PyYAML gives an alias the position of the anchored node, so look for the alias in the text.
            place = alias.end()
        words = source[first:place]
        without_value = ":" if place == key.end_mark.index else ""
        section.entries.append(Entry(str(key.value), above, (words + without_value).split("\n")))
    section.tail = re.findall(r"#.*", source[place : node.end_mark.index])
    return section


def _value_node(lines: Sequence[str]) -> yaml.Node | None:
    """Return the YAML node of the second key's value.

    `lines` contain two keys: the key `_` from `_stubs`, which only defines anchors, and the key whose value is wanted.
    """
    node = yaml.compose("\n".join(lines), Loader=yaml.SafeLoader)
    return node.value[1][1] if isinstance(node, yaml.MappingNode) else None


def _stubs(entry: Entry) -> str:
    """Return a line that defines the anchors for the entry's aliases, so that the entry alone is valid YAML."""
    names = sorted(set(re.findall(r"\*([^\s,\]}]+)", "\n".join(entry.lines))))
    return "_: [" + ", ".join(f"&{name} 0" for name in names) + "]"


def _alias(entry: Entry) -> str:
    found = re.match(r"[^:]*:\s*(\*\S+)\s*(#|$)", entry.lines[0])
    return found[1] if found else ""


def _is_mapping(entry: Entry) -> bool:
    if entry.section or _alias(entry):
        return True
    return isinstance(_value_node([_stubs(entry), *entry.lines]), yaml.MappingNode)


def _comments_at_end(lines: Sequence[str]) -> list[str]:
    return list(reversed(list(takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[1:])))))


def _split_head(above: list[str]) -> tuple[list[str], list[str]]:
    """Split the comments at the last empty line.

    The comments before that line are about the whole file, and the comments after it are about the first key.
    """
    cut = max((number for number, line in enumerate(above) if not line.strip()), default=-1)
    return _trimmed(above[: cut + 1]), above[cut + 1 :]


def _dedented(lines: Sequence[str], column: int) -> list[str]:
    return [line[column:] if not line[:column].strip() else line.lstrip() for line in lines]


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Return the lines without empty lines at the beginning and the end."""
    return "\n".join(line if line.strip() else "" for line in lines).strip("\n").split("\n") if any(lines) else []
