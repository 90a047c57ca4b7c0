"""Test that each comment in a values file stays with its key when keys are set, moved or merged."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from distrain.errors import ValuesError
from distrain.values import commented_yaml
from lab.paths import REPOSITORY
from schemas.build import read

SCHEMA = read()
FILES = [*sorted((REPOSITORY / "values").glob("*.yaml")), REPOSITORY / "charts" / "distrain" / "values.yaml"]


def written(text: str, *settings: tuple[str, Any]) -> str:
    section = commented_yaml.parse(text, SCHEMA)
    for path, value in settings:
        section.set(path.split("."), value)
    section.sort(SCHEMA)
    return commented_yaml.text(section)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_that_nothing_is_set_in_stays_the_same(path: Path) -> None:
    text = path.read_text()

    assert commented_yaml.text(commented_yaml.parse(text, SCHEMA)) == text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_sorting_changes_no_value_loses_no_line_and_is_done_once(path: Path) -> None:
    text = path.read_text()

    ordered = written(text)

    assert yaml.safe_load(ordered) == yaml.safe_load(text)
    assert sorted(filter(None, ordered.split("\n"))) == sorted(filter(None, text.split("\n")))
    assert written(ordered) == ordered


def test_comments_move_with_their_keys() -> None:
    text = """\
# About the file.

trainer:
  # of the model
  model: vgg16   # VGG
  # below the model
# about workers
workers:
    # per GPU
    shm: 8Gi
# the end
"""

    assert (
        written(text, ("workers.replicas", 4), ("gpus", 32))
        == """\
# About the file.

gpus: 32
# about workers
workers:
    replicas: 4
    # per GPU
    shm: 8Gi
trainer:
  # of the model
  model: vgg16   # VGG
  # below the model
# the end
"""
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "workers: {shm: 2Gi, tolerations: [{key: a}]}\n",
            "workers:\n  replicas: 4\n  shm: 2Gi\n  tolerations: [{key: a}]\n",
            id="braces",
        ),
        pytest.param(
            "workers: {\n  # small\n  shm: 2Gi}\n",
            "workers:\n  replicas: 4\n  # small\n  shm: 2Gi\n",
            id="comment-inside",
        ),
        pytest.param("workers: {shm, cpu: 1}\n", "workers:\n  replicas: 4\n  cpu: 1\n  shm:\n", id="key-alone"),
        pytest.param("workers: {}\n", "workers:\n  replicas: 4\n", id="empty"),
        pytest.param("workers:\n", "workers:\n  replicas: 4\n", id="null"),
        pytest.param('"workers":\n  shm: 2Gi', '"workers":\n  replicas: 4\n  shm: 2Gi\n', id="quoted-key"),
        pytest.param(
            "x-w: &w\n  shm: 2Gi\nworkers: *w\n", "x-w: &w\n  shm: 2Gi\nworkers:\n  <<: *w\n  replicas: 4\n", id="alias"
        ),
        pytest.param(
            "workers: &w\n  shm: 2Gi\nx-w: *w\n", "x-w: *w\nworkers: &w\n  replicas: 4\n  shm: 2Gi\n", id="anchor"
        ),
        pytest.param("{workers: {shm: 2Gi}}\n", "workers:\n  replicas: 4\n  shm: 2Gi\n", id="all-in-braces"),
        pytest.param("workers:\r\n  shm: 2Gi\r\n", "workers:\n  replicas: 4\n  shm: 2Gi\n", id="windows"),
        pytest.param(
            "---\n# mine\nworkers:\n  shm: 2Gi\n", "# mine\nworkers:\n  replicas: 4\n  shm: 2Gi\n", id="dashes"
        ),
        pytest.param(
            "workers:\n  shm: 2Gi\n...  # end\n# mine\n...\n", "workers:\n  replicas: 4\n  shm: 2Gi\n# mine\n", id="end"
        ),
        pytest.param(
            "x: |\n  a\n  ...\nworkers:\n  shm: 2Gi\n",
            "x: |\n  a\n  ...\nworkers:\n  replicas: 4\n  shm: 2Gi\n",
            id="dots-in-a-text",
        ),
        pytest.param("", "workers:\n  replicas: 4\n", id="nothing"),
        pytest.param("# only this\n", "# only this\n\nworkers:\n  replicas: 4\n", id="comment-alone"),
    ],
)
def test_value_is_set_however_the_section_is_written(text: str, expected: str) -> None:
    assert written(text, ("workers.replicas", 4)) == expected


def test_text_of_several_lines_is_moved_whole() -> None:
    text = "volumes:\n- name: a\n  csi:\n    x: |\n      # no comment\n\n      text\ncommand: [a,\n  b]\ngpus: 3\n"

    ordered = written(text)

    assert yaml.safe_load(ordered) == yaml.safe_load(text)
    assert ordered.startswith("gpus: 3\ncommand: [a,\n  b]\nvolumes:\n- name: a\n")


def test_later_file_wins_and_both_keep_their_comments() -> None:
    document = commented_yaml.parse("# first\nworkers:\n  # mine\n  shm: 1Gi\n  gpus: 2\n", SCHEMA)

    document.merge(commented_yaml.parse("workers: {gpus: 4}\ntrainer:\n  # theirs\n  model: vgg16\n", SCHEMA))

    assert commented_yaml.text(document) == (
        "# first\nworkers:\n  # mine\n  shm: 1Gi\n  gpus: 4\ntrainer:\n  # theirs\n  model: vgg16\n"
    )


def test_only_values_with_an_alias_are_written_out() -> None:
    text = (
        "x-a: [*a]  # mine\nworkers:\n  # kept\n  shm: 2Gi\n  cpu: *c\n"
        "trainer:\n  <<: *t\n  model: vgg16\ngpus: 3\ncommand: ['a*']\n"
    )
    anchors = "x: [&a 1, &c 2, &t {steps: 9}]\n"
    document = commented_yaml.parse(anchors + text, SCHEMA)
    document.remove(["x"])

    document.write_out(yaml.safe_load(anchors + text))

    assert commented_yaml.text(document) == (
        "x-a:  # mine\n- 1\nworkers:\n  # kept\n  shm: 2Gi\n  cpu: 2\n"
        "trainer:\n  steps: 9\n  model: vgg16\ngpus: 3\ncommand: ['a*']\n"
    )


scalars = st.one_of(
    st.integers(0, 99), st.text("ab #:'\"-", max_size=6), st.none(), st.lists(st.integers(), max_size=2)
)
names = st.sampled_from(["gpus", "workers", "trainer", "x-a", "data", "env"])
inner = st.dictionaries(st.sampled_from(["shm", "cpu", "model", "uri"]), scalars, max_size=3)
documents = st.dictionaries(names, st.one_of(scalars, inner), max_size=5)


@given(values=documents, flow=st.sampled_from([None, False, True]), indent=st.integers(2, 6), more=inner)
def test_any_values_survive_setting_and_sorting(
    values: dict[str, Any], flow: bool | None, indent: int, more: dict[str, Any]
) -> None:
    text = yaml.safe_dump(values, default_flow_style=flow, indent=indent, sort_keys=False) if values else ""

    ordered = written(text, *[(f"workers.{key}", value) for key, value in more.items()])

    expected = copy.deepcopy(values)
    for key, value in more.items():
        workers = expected.get("workers")
        expected["workers"] = {**(workers if isinstance(workers, dict) else {}), key: value}
    assert (yaml.safe_load(ordered) or {}) == expected
    assert written(ordered) == ordered


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("- a\n", "values: the file contains no keys; write it as KEY: VALUE lines", id="list"),
        pytest.param(
            "a: [\n", "values: line 1 is not valid YAML; check indentation, brackets and quotes there", id="broken"
        ),
    ],
)
def test_file_that_is_no_values_file_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValuesError, match=words):
        commented_yaml.parse(text, SCHEMA)
