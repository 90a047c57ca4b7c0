"""Find the values files and --set flags that Helm cannot read, and say in plain words what is wrong with each.

Helm stops at the first mistake, and its messages name Go types. So each values file is read here. Each --set flag is
passed to Helm separately, after the flags that Helm can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distrain import temporary
from distrain.errors import reason
from distrain.helm.program import Source
from distrain.kube.form import NOUNS
from distrain.yaml import yaml_loader

# A function that runs Helm with the given flags for values. It returns Helm's error message, or None if Helm accepts
# the flags.
Refusal = Callable[[Sequence[str]], "str | None"]

# Helm applies the flags in this order, whatever their order on the command line.
ORDER = ("--values", "--set-json", "--set", "--set-string", "--set-file", "--set-literal")
FORMS = {"--set-json": "KEY=JSON, such as workers.gpus=8", "--set-file": "KEY=FILE"}
COMMA = ", and \\, for a comma inside a value"
# Patterns for Helm's messages, each with a text that says what the message means.
FINDINGS = (
    ("index of .* greater", "has an index above 65536; list the entries in a values file"),
    ("index", "has an index that is no whole number; write {form}, with KEY[0] for the first entry of a list"),
    ("has no value", "has no value; write {form}"),
    ("nested level", "is nested more than 30 levels deep; name a value of the chart"),
    ("must terminate", "has a list without a closing brace; write KEY={{A,B}}"),
    ("excessive aliasing", "has aliases that repeat too much; write the values out"),
    ("contains itself", "has an anchor that contains itself; write the values out"),
)
OTHER = "cannot be read; write {form}"
OTHER_IN_FILE = "is no YAML that Helm can read; write it as KEY: VALUE lines"
CONVERSION = re.compile(r"interface \{\} is (.+), not (.+)$")
GO_TYPES = {
    "map[string]interface {}": "a mapping of keys",
    "[]interface {}": "a list",
    "string": "text",
    "bool": "true or false",
    "nil": "null",
}
QUOTED_KEY = re.compile(r'key (?:map )?"([^"]*)"')


def mistakes(source: Source, refusal: Refusal) -> list[str]:
    """Return one line for each values file and each --set flag that Helm cannot read."""
    pairs = zip(source.flags[::2], source.flags[1::2], strict=True)
    found: list[str] = []
    right: list[str] = []
    for flag, value in sorted(pairs, key=lambda pair: ORDER.index(pair[0])):
        line = _in_file(source, value) if flag == "--values" else None
        if not line and (said := refusal([*right, flag, value])) is not None:
            line = f"{_named(flag, value, said)}: {_finding(flag, said).format(form=_form(flag, value))}"
        if line:
            found.append(f"{flag}: {line}")
        else:
            right += [flag, value]
    return found


def _in_file(source: Source, path: str) -> str | None:
    """Return a message about the first mistake in a values file."""
    name = temporary.with_names(path)
    try:
        text = source.read(path).decode()
        odd = next(_not_blocks(yaml_loader.load_all(text)), None)
    except (OSError, UnicodeDecodeError) as error:
        return f"{name} cannot be read: {reason(error)}; name another file"
    except yaml_loader.NotYamlError as error:
        return f"{name}: {error}"
    return f"{name}: found {NOUNS[odd]}; it needs a mapping of keys, written as KEY: VALUE lines" if odd else None


def _not_blocks(documents: Sequence[Any]) -> Iterator[type]:
    return (type(document) for document in documents if not isinstance(document, dict | None))


def _named(flag: str, value: str, said: str) -> str:
    """Return the name of the file, or the key of the --set flag, that Helm's message is about.

    The value itself is left out, because it may be secret.
    """
    if flag == "--values":
        return temporary.with_names(value)
    if value.lstrip().startswith("{"):
        return "the object"
    # Skip a part that starts with a quote or a bracket: it is no key. For example, the user may have forgotten KEY=
    # after --set-json, and given only the JSON value.
    keys = [key for part in value.split(",") if (key := part.partition("=")[0])[:1] not in ('"', "[")]
    quoted = QUOTED_KEY.search(said)
    return next((key for key in keys if quoted and key.endswith(quoted[1])), next(iter(keys), "")) or "its key"


def _form(flag: str, value: str) -> str:
    return FORMS.get(flag, "KEY=VALUE") + (COMMA if "," in value and flag != "--set-json" else "")


def _finding(flag: str, said: str) -> str:
    if types := CONVERSION.search(said):
        is_there, wanted = (GO_TYPES.get(each, "a number") for each in types.groups())
        return f"is {is_there} in the values before it, not {wanted}; write it in one of the two forms"
    other = OTHER_IN_FILE if flag == "--values" else OTHER
    return next((words for pattern, words in FINDINGS if re.search(pattern, said)), other)
