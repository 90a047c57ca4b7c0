"""Load YAML in the same way as kubectl and Helm.

Both use go-yaml v2 and convert the result to JSON. So keys are text, `y` and `no` are booleans, dates and `12:30` are
text, and a repeated key overrides the earlier one. Without the changes in this module, PyYAML would read all of these
differently, except for repeated keys.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from distrain.errors import DEEPEST

# libyaml's parser is ten times as fast as PyYAML's own.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BRACKETS = re.compile(r"[\[\]{}]")
# Finds what may be an anchor. An `&` after `>` or after another `&` is no anchor, but part of a shell script.
ANCHOR = re.compile(r"(?<![\w&>])&[\w-]")
# Finds a line with so much indentation, or so many dashes or keys, that its values may be nested deeper than DEEPEST.
DEEP_LINE = re.compile(rf"(?:[ \t?-]|[\w\"'.]+:[ ]){{{DEEPEST},}}")

TAG = "tag:yaml.org,2002:"
NULL, BOOL, NUMBER, MERGE = (f"{TAG}{name}" for name in ("null", "bool", "number", "merge"))
TRUE = {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"}
FALSE = {"n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"}
INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class NotYamlError(ValueError):
    """A text that is not YAML.

    The message names the line but repeats no text, because the text may contain a secret.
    """


class _AliasError(yaml.YAMLError):
    """If the aliases in the text were replaced, the text would become too large. The message says what to do."""


class _Refused(yaml.constructor.ConstructorError):
    """A node that JSON cannot represent. The message says what to write instead."""

    def __init__(self, node: yaml.Node, words: str) -> None:
        super().__init__(problem=f"line {node.start_mark.line + 1} {words}", problem_mark=node.start_mark)


class _Loader(_Base):  # type: ignore[misc]
    """A loader with the types of go-yaml v2."""

    # Without PyYAML's resolvers.
    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                for merged in self._merged(value):
                    found.update(self.construct_mapping(merged, deep=True))
            else:
                found[self._key(key)] = self.construct_object(value, deep=deep)
        return found

    def _key(self, node: yaml.Node) -> str:
        found = self.construct_object(node, deep=True)
        if isinstance(found, bool):
            return "true" if found else "false"
        if not isinstance(found, str | int | float):
            raise _Refused(node, "has a key that is null, a list or a mapping; write the key as text")
        return f"{found:g}" if isinstance(found, float) else str(found)

    def _merged(self, value: yaml.Node) -> list[yaml.Node]:
        """Return the mappings that the key `<<` merges.

        If `<<` merges a list of mappings that contain the same key, the first of these mappings wins.
        """
        nodes = value.value[::-1] if isinstance(value, yaml.SequenceNode) else [value]
        for node in nodes:
            if not isinstance(node, yaml.MappingNode):
                raise _Refused(node, "merges what is not a mapping of keys; write <<: *ANCHOR with a mapping's anchor")
        return list(nodes)

    def construct_any(self, node: yaml.Node) -> Any:
        """Construct a node whose tag is unknown to go-yaml. Such a tag has no effect."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return node.value

    def construct_map(self, node: yaml.Node) -> Iterator[dict[str, Any]]:
        # Yield the mapping first and fill it afterwards, because an alias may be inside its own anchor.
        found: dict[str, Any] = {}
        yield found
        found.update(self.construct_mapping(node))

    def construct_number(self, node: yaml.Node) -> Any:
        return self._checked(node, number(str(node.value)))

    def construct_typed_number(self, node: yaml.Node) -> Any:
        """Construct a scalar with the tag !!int or !!float, which must be a number."""
        found = number(str(node.value))
        return self._checked(node, math.nan if isinstance(found, str) else found)

    def construct_bool(self, node: yaml.Node) -> bool:
        if node.value not in TRUE | FALSE:
            raise _Refused(node, "has a !!bool that is neither true nor false; write true or false")
        return node.value in TRUE

    def construct_binary(self, node: yaml.Node) -> str:
        try:
            return base64.b64decode("".join(str(node.value).split()), validate=True).decode(errors="replace")
        except ValueError as error:
            raise _Refused(node, "has a !!binary that is no base64; correct it") from error

    def _checked(self, node: yaml.Node, value: Any) -> Any:
        """Refuse infinity and NaN, which do not exist in JSON."""
        if isinstance(value, float) and not math.isfinite(value):
            raise _Refused(node, "needs a finite number; write it in digits")
        return value


for _tag, _pattern, _first in (
    (BOOL, "|".join(TRUE | FALSE), "yYnNtTfFoO"),
    (NULL, "~|null|Null|NULL|", ["~", "n", "N", ""]),
    (NUMBER, "[-+.0-9].*", "-+.0123456789"),
    (MERGE, "<<", "<"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_CONSTRUCTORS: tuple[tuple[str | None, Any], ...] = (
    (f"{TAG}map", _Loader.construct_map),
    (BOOL, _Loader.construct_bool),
    (NUMBER, _Loader.construct_number),
    (f"{TAG}int", _Loader.construct_typed_number),
    (f"{TAG}float", _Loader.construct_typed_number),
    (f"{TAG}binary", _Loader.construct_binary),
    *((f"{TAG}{name}", _Loader.construct_any) for name in ("timestamp", "set", "omap", "pairs", "value", "merge")),
    (None, _Loader.construct_any),
)
for _name, _construct in _CONSTRUCTORS:
    _Loader.add_constructor(_name, _construct)


def load(text: str) -> Any:
    """Load the first document of a text; raise NotYamlError if the text is not YAML."""
    return next(iter(load_all(text)), None)


def load_all(text: str) -> list[Any]:
    """Load all documents of a text; raise NotYamlError if the text is not YAML."""
    try:
        _refuse_depth(text)
        _refuse_aliases(text)
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, RecursionError) as error:
        raise NotYamlError(_tab(error, text) or mistake(error, text)) from error


def _tab(error: Exception, text: str) -> str:
    """Return a message if the line of the error is indented with a tab, otherwise an empty text."""
    mark: Any = getattr(error, "problem_mark", None)
    line = next(iter(text.splitlines()[mark.line : mark.line + 1]), "") if mark else ""
    is_tab = "\t" in line[: len(line) - len(line.lstrip())]
    return f"line {mark.line + 1} is indented with a tab; indent it with spaces" if is_tab else ""


def mistake(error: Exception, text: str) -> str:
    """Return the position in the text at which the YAML is wrong, and what to do."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if isinstance(error, yaml.reader.ReaderError):
        return "it is not YAML: it contains a control character or is not UTF-8; save it as plain text"
    if isinstance(error, RecursionError):
        return f"it is nested more than {DEEPEST} levels deep; flatten it"
    if isinstance(error, _AliasError):
        return str(error)
    if isinstance(error, _Refused):
        return str(error.problem)
    # PyYAML places an unclosed bracket or quote in the line after the last one.
    where = f"line {min(mark.line + 1, len(text.splitlines()))} is" if mark else "it is"
    return f"{where} not valid YAML; check indentation, brackets and quotes there"


def number(text: str) -> int | float | str:
    """Return the number that go-yaml reads in a plain scalar. If go-yaml reads no number, return the text."""
    plain = text if text.startswith(".") else text.replace("_", "")
    if INTEGER.fullmatch(plain):
        found = _integer(plain)
        if -(2**63) <= found < (2**63 if plain[0] in "+-" else 2**64):
            return found
    if FLOAT.fullmatch(plain) and math.isfinite(float(plain)):
        return float(plain)
    return math.nan if NOT_FINITE.fullmatch(text) else text


def _integer(plain: str) -> int:
    digits = plain.lstrip("+-")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdecimal()
    found = int(digits, 8) if is_octal else int(digits, 0)
    return -found if plain[0] == "-" else found


def _refuse_depth(text: str) -> None:
    """Raise RecursionError for a text that is nested too deeply.

    With libyaml, PyYAML would crash at a few thousand levels. To save time, a text is parsed for this only if its
    brackets or its indentation can be nested that deeply.
    """
    depth = deepest = 0
    for bracket in BRACKETS.findall(text):
        depth = max(0, depth + (1 if bracket in "[{" else -1))
        deepest = max(deepest, depth)
    long = (line for line in text.split("\n") if len(line) >= DEEPEST)
    if deepest < DEEPEST and not any(map(DEEP_LINE.match, long)):
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError


def _refuse_aliases(text: str) -> None:
    """Raise _AliasError for a document that go-yaml refuses because replacing its aliases makes it too large."""
    if not ANCHOR.search(text):
        return
    sizes: dict[str | None, int] = {}
    # The lists and maps that have begun but not ended: the anchor of each, and the number of nodes before it.
    opened: list[tuple[str | None, int]] = []
    nodes = repeated = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes, nodes, repeated = {}, 0, 0
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in opened):
                raise _AliasError("it has an anchor that contains itself; write the values out")
            nodes, repeated = nodes + 1 + sizes.get(event.anchor, 0), repeated + sizes.get(event.anchor, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = nodes - before
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            sizes[event.anchor] = 1
        if _is_excessive(nodes, repeated):
            raise _AliasError("it has aliases that repeat too much; write the values out")


def _is_excessive(nodes: int, repeated: int) -> bool:
    """Tell whether go-yaml refuses a document.

    When all aliases are replaced, the document has `nodes` nodes, of which `repeated` come from aliases.
    """
    # gopkg.in/yaml.v2 decode.go: unmarshal, allowedAliasRatio
    growth = min(max((nodes - 400_000) / 3_600_000, 0), 1)
    return repeated > 100 and nodes > 1000 and repeated / nodes > 0.99 - 0.89 * growth
