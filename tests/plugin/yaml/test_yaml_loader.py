"""Test that YAML is read as Helm and kubectl read it. Helm reads all random documents in a single rendering.

If Helm and the plugin read a document differently, the failure message contains this document. Helm reads every number
as a float, so the tests compare large integers as floats.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from distrain.yaml import yaml_loader
from distrain.yaml.yaml_loader import NotYamlError

TEMPLATE = """\
{{- range $name, $text := .Files.Glob "read/*" }}
{{ dict "name" $name "read" ($text | toString | fromYaml) | toJson }}
{{- end }}
"""
SCALARS = [
    *("y", "Y", "yes", "On", "n", "NO", "off", "OFF", "true", "True", "tRUE", "~", "null", "Null", "", "=", "<", "<<"),
    *("2024-01-01", "2024-01-01T00:00:00Z", "2001-12-14t21:59:43.10-05:00", "12:30", "190:20:30", "1:2"),
    *("0777", "0o777", "0b101", "-0b11", "1_000", "0x1F", "-0x1f", "0X1F", "08", "+12", "017", "-017", "0_17", "1__0"),
    *("1e3", "1E3", "1.", "-.5", ".5", "._5", "1.5e+3", "-1e-3", "1e400", "0x1p4", "1_0.5_0", "+1_0.5", "-0.0", "NaN"),
    *(".inf", "-.INF", ".nan", "9223372036854775807", "18446744073709551615", "18446744073709551616", "9" * 30),
    *("!!str 123", "!!int '3'", "!!int x", "!!float 3", "!foo x", "!!binary aGk=", "!!bool yes", "!!null ''", "'yes'"),
    *("!!set {a, b}", "!!omap [a: 1]", "!!timestamp 2024-01-01", "{a: 1, a: 2}", "{1: a, yes: b, 1.5: c}", "{~: a}"),
    *("{<<: {a: 1}, b: 2}", "{<<: [{a: 1}, {a: 2}], b: 2}", "{b: 1, <<: {b: 2}}", "{<<: {b: 2}, b: 1}", "{<<: 1}"),
    *("*a", "&a b", "[&a 1, *a]", "? x", "%a", "@a", "a: b", "[a, b", "\tx", "a\tb", "é", "\x07", "#c", "|\n  x\n  y"),
]
SIGNS = "0123456789_.:-+eExobEXOBnyfTYN=~<"
BOM = b"\xef\xbb\xbf"


def test_scalars_are_read_as_helm_reads_them(tmp_path: Path, helm4: Path) -> None:
    chance = random.Random(0)
    made = ["".join(chance.choices(SIGNS, k=chance.randint(1, 8))) for _ in range(1500)]
    texts = [f"k: {scalar}\n" for scalar in [*SCALARS, *made]]

    read = dict(zip(texts, _read_by_helm(tmp_path, helm4, [text.encode() for text in texts]), strict=True))

    differences = {
        text: (ours, theirs) for text, theirs in read.items() if (ours := _as_floats(_read(text))) != _as_floats(theirs)
    }
    assert differences == {}


def test_byte_order_mark_is_read_as_helm_reads_it(tmp_path: Path, helm4: Path) -> None:
    [theirs] = _read_by_helm(tmp_path, helm4, [BOM + b"k: 1\n"])

    assert theirs == _read((BOM + b"k: 1\n").decode()) == {"k": 1}


def test_documents_are_read_one_by_one() -> None:
    assert yaml_loader.load_all("a: y\n---\n# nothing\n---\n- 0777\n...\n---\nb: 12:30\n") == [
        *({"a": True}, None, [511], {"b": "12:30"}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="brackets"),
        pytest.param("{a: " * 3000, id="braces"),
        pytest.param("- " * 5000, id="dashes"),
        pytest.param("? " * 5000, id="keys"),
        pytest.param("\n".join(f"{' ' * depth}a:" for depth in range(3000)), id="indentation"),
    ],
)
def test_text_that_would_crash_the_parser_is_refused(text: str) -> None:
    with pytest.raises(NotYamlError, match="nested more than 100 levels deep"):
        yaml_loader.load(text)


def test_only_the_loader_uses_the_parser_that_deep_values_crash() -> None:
    """libyaml's loaders crash the process at some ten thousand levels. Only yaml_loader refuses such a text before."""
    folder = Path(yaml_loader.__file__).parents[1]
    users = {path.stem for path in folder.rglob("*.py") if "CSafeLoader" in path.read_text(encoding="utf-8")}

    # repeated_keys reads events one after the other, so depth does no harm there.
    assert users == {"yaml_loader", "repeated_keys"}


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{level}: &a{level} [{', '.join(10 * [f'*a{level - 1}'])}]" for level in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(_bomb(9), "it has aliases that repeat too much; write the values out", id="bomb"),
        pytest.param(f"a: 1\n---\n{_bomb(9)}", "it has aliases that repeat too much", id="second-document"),
        pytest.param("a: &a\n  <<: *a\n", "it has an anchor that contains itself", id="merged-with-itself"),
        pytest.param("a: &a [*a]\n", "it has an anchor that contains itself", id="inside-itself"),
    ],
)
def test_aliases_that_would_take_all_memory_are_refused(text: str, words: str) -> None:
    with pytest.raises(NotYamlError, match=words):
        yaml_loader.load(text)


@pytest.mark.parametrize("levels", range(1, 7))
def test_aliases_are_refused_where_helm_refuses_them(tmp_path: Path, helm4: Path, levels: int) -> None:
    text = _bomb(levels)

    [theirs] = _read_by_helm(tmp_path, helm4, [text.encode()])

    assert _read(text) == theirs


def test_mistake_names_the_line_and_repeats_no_text() -> None:
    with pytest.raises(NotYamlError, match=r"^line 2 is not valid YAML; check indentation, brackets and quotes there$"):
        yaml_loader.load("a: 1\npassword: @geheim\n")


@pytest.mark.parametrize("text", ["a: [1\n b", "a: [1\n b\n", "a: 1\nb: 'c\n", 'a: 1\nb: "c', "a: 1\nb: {c: [\n"])
def test_mistake_is_not_behind_the_last_line(text: str) -> None:
    with pytest.raises(NotYamlError, match=r"^line 2 is not valid YAML"):
        yaml_loader.load(text)


@pytest.mark.parametrize("text", ["a:\n\tb: 1\n", "a:\n  b: 1\n  \tc: 2\n"])
def test_tab_is_named(text: str) -> None:
    with pytest.raises(NotYamlError, match=r"^line [23] is indented with a tab; indent it with spaces$"):
        yaml_loader.load(text)


def _read(text: str) -> Any:
    try:
        return yaml_loader.load(text)
    except NotYamlError:
        return "refused"


def _as_floats(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _as_floats(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_as_floats(value) for value in found]
    return float(found) if isinstance(found, int) and not isinstance(found, bool) else found


def _read_by_helm(folder: Path, helm: Path, texts: Sequence[bytes]) -> list[Any]:
    """Return the values that Helm reads from each of the YAML texts. Each text must be a YAML mapping."""
    for name in ("templates", "read"):
        (folder / name).mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: a\nversion: 0.0.0\n")
    (folder / "templates" / "a.yaml").write_text(TEMPLATE)
    for number, text in enumerate(texts):
        (folder / "read" / f"{number:05}").write_bytes(text)
    printed = subprocess.run([helm, "template", "a", folder], capture_output=True, text=True, check=True).stdout
    found = [json.loads(line)["read"] for line in printed.splitlines() if line.startswith("{")]
    return ["refused" if "Error" in each else each for each in found]
