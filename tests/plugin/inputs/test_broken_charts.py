"""Test --chart with broken files: each gives one line with the file and the next step, not a message of Helm or Go."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import CHART
from tests.plugin.inputs.random_inputs import OFFLINE, Input
from tests.plugin.inputs.trial import Bench, bench, mistakes

BLOCK, CORRECT = "is not a mapping of keys", "; correct that file"
SCHEMA, TEMPLATE = "values.schema.json", "templates/mpijob.yaml"
NO_SCHEMA = f"has a {SCHEMA} that is not a JSON schema{CORRECT}"
FOREIGN = "has no values below job; is it distrain's chart?"


@pytest.fixture(scope="module")
def place() -> Iterator[Bench]:
    with bench() as found:
        yield found


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CHART, tmp_path / "other"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        pytest.param("Chart.yaml", b"a: [", ": Chart.yaml is no YAML", id="chart"),
        pytest.param(
            "Chart.yaml", b"apiVersion: v2\nname: a\n", ": Chart.yaml has no name or no version", id="version"
        ),
        pytest.param("values.yaml", b"[1]", f": values.yaml {BLOCK}", id="values-are-a-list"),
        pytest.param("values.yaml", b"a: .nan", ": values.yaml is no YAML", id="not-a-number"),
        pytest.param("values.yaml", b"a: \xff", ": values.yaml cannot be read: it is not UTF-8 text", id="latin"),
        pytest.param("values.yaml", b"a: " + b"[" * 200 + b"]" * 200, ": values.yaml is no YAML", id="deep"),
        pytest.param(SCHEMA, b"{", f": {SCHEMA} is no JSON", id="no-json"),
        pytest.param(SCHEMA, b"null", f": {SCHEMA} {BLOCK}", id="null"),
        pytest.param(SCHEMA, b'{"a":' * 3000 + b"1" + b"}" * 3000, f": {SCHEMA} is no JSON", id="deep-schema"),
    ],
)
@pytest.mark.parametrize("command", [["check", *OFFLINE], ["derive", "--node-gpus", "8"]], ids=["check", "derive"])
def test_file_of_a_chart_that_cannot_be_read_is_one_line(
    place: Bench, chart: Path, command: list[str], name: str, content: bytes, words: str
) -> None:
    (chart / name).write_bytes(content)

    answer = place.in_process(Input([*command, "--chart", str(chart)]))

    assert (answer.code, answer.err) == (2, f"distrain: --chart: {chart}{words}{CORRECT}\n")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        pytest.param(b'{"type": 5}', NO_SCHEMA, id="type"),
        pytest.param(b'{"$ref": "#/definitions/x"}', NO_SCHEMA, id="reference"),
        pytest.param(b'{"$ref": "#"}', NO_SCHEMA, id="without-end"),
        pytest.param(b'{"patternProperties": {"(": {}}}', NO_SCHEMA, id="pattern"),
    ],
)
def test_schema_that_is_none_is_one_line(place: Bench, chart: Path, schema: bytes, words: str) -> None:
    (chart / SCHEMA).write_bytes(schema)

    answer = place.in_process(Input(["check", *OFFLINE, "--set", "workers.gpus=0", "--chart", str(chart)]))

    assert (answer.code, answer.err) == (2, f"distrain: --chart: {chart} {words}\n")


def test_chart_that_helm_alone_cannot_use_is_one_line(place: Bench, chart: Path) -> None:
    (chart / SCHEMA).write_text('{"$schema": "http://127.0.0.1:9/none"}')
    chart = chart.rename(chart.with_name("my chart"))

    answer = place.in_process(Input(["check", *OFFLINE, "--set", "workers.gpus=0", "--chart", str(chart)]))

    words = f"distrain: --chart: Helm cannot use {chart} with these values; `helm lint '{chart}'` says why\n"
    assert (answer.code, answer.err) == (2, words)


@pytest.mark.parametrize("command", [["check", *OFFLINE], ["derive", "--node-gpus", "8"]], ids=["check", "derive"])
def test_chart_that_is_not_distrains_is_one_line(place: Bench, chart: Path, command: list[str]) -> None:
    (chart / SCHEMA).unlink()
    (chart / "values.yaml").write_text("foo: 1\n")

    answer = place.in_process(Input([*command, "--chart", str(chart)]))

    assert (answer.code, len(answer.err.splitlines())) == (2, 1)
    assert answer.err.endswith("; is it distrain's chart?\n")


@pytest.mark.parametrize(
    ("template", "where"),
    [
        pytest.param("{{", "templates/mpijob.yaml, line 1,", id="braces"),
        pytest.param("\n{{ .Values.x.y.z }}", "templates/mpijob.yaml, line 2,", id="nil"),
        pytest.param("{{ index .Values.env 5 }}", "templates/mpijob.yaml, line 1,", id="index"),
        pytest.param("a: [\n", "templates/mpijob.yaml", id="yaml"),
        pytest.param("- a\n", "templates/mpijob.yaml", id="list"),
    ],
)
def test_template_that_helm_cannot_render_is_one_line(place: Bench, chart: Path, template: str, where: str) -> None:
    (chart / TEMPLATE).write_text(template)

    answer = place.in_process(Input(["check", *OFFLINE, "--set", "workers.gpus=0", "--chart", str(chart)]))

    words = f"--chart: distrain/{where} cannot be rendered with these values; `helm template` says why"
    assert (answer.code, answer.err, mistakes(answer)) == (4, f"distrain: {words}\n", [])
