"""Test the files that depend on the schema: the JSON schema, docs/values.md, values.yaml's comments, editor support."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
import yaml
from referencing.jsonschema import DRAFT202012

from distrain_trainer.models import MODELS, user
from distrain_trainer.models.description import Model
from schemas import build, document, kubernetes, models, pattern_words
from tests.chart.rendering import CHART, REPOSITORY, VALUES
from tests.chart.values.schema_entries import ENTRIES, LEAVES, Schema

VALUES_YAML = CHART / "values.yaml"
FILES = [VALUES_YAML, *sorted(VALUES.glob("*.yaml"))]


def test_json_is_what_the_yaml_builds() -> None:
    assert build.build() == build.TARGET.read_text(encoding="utf-8"), "run `make schema`"


def test_list_of_values_is_what_the_yaml_builds() -> None:
    assert document.document() == document.TARGET.read_text(encoding="utf-8"), "run `make schema`"


def test_models_for_the_plugin_are_what_the_trainer_describes() -> None:
    assert models.build() == models.TARGET.read_text(encoding="utf-8"), "run `make schema`"


def test_schema_names_every_model() -> None:
    entry = ENTRIES["trainer.model"]

    assert entry["pattern"].startswith(f"^({'|'.join(MODELS)}|[A-Za-z_]")
    assert f"to train, {', '.join(MODELS)} or module:function," in entry["description"]


def test_training_page_has_a_row_for_every_model() -> None:
    page = (REPOSITORY / "docs" / "training.md").read_text(encoding="utf-8")
    described = [*MODELS.values(), user.MODEL]
    section = page.partition("## Models\n")[2].partition("\n#")[0]

    _header, *rows = re.findall(r"^\| `(.*)` \| (.*) \| (.*) \| (.*) \|$", section, re.MULTILINE)

    assert rows == [(model.name, model.title, taken_by(model), synthetic_images_of(model)) for model in described]


def taken_by(model: Model) -> str:
    if model is user.MODEL:
        return "what you say"
    return f"images from {model.smallest}x{model.smallest}" if model.smallest else "x".join(map(str, model.shape))


def synthetic_images_of(model: Model) -> str:
    return f"{'x'.join(map(str, model.shape))}, {model.classes} classes"


def test_kubernetes_types_are_those_of_the_pinned_release() -> None:
    expected = kubernetes.TARGET.read_text(encoding="utf-8")

    assert kubernetes.extract() == expected, "run `python -m schemas.kubernetes`, then `make schema`"


@pytest.fixture(scope="module")
def page() -> str:
    """Return the text of docs/values.md as generated from the schema."""
    return document.document()


@pytest.mark.parametrize("path", LEAVES)
def test_list_of_values_has_a_row_for_every_value(page: str, path: str) -> None:
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{path}` |")]
    cells = re.split(r"(?<!\\) \| ", row.strip("| "))

    assert len(cells) >= 4
    assert all(cells[1:4])


def paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the paragraphs: blocks of lines between empty lines."""
    for part in text.split("\n\n"):
        yield part.splitlines()


def keys_without_comment(text: str) -> list[str]:
    """Return the lines that set a value but have no comment above them in the same paragraph.

    A group of values needs no comment if its values have comments.
    """
    missing = []
    for lines in paragraphs(text):
        for index, line in enumerate(lines):
            is_value = re.match(r" *[a-zA-Z]+: ", line)
            if is_value and not any(above.lstrip().startswith("# ") for above in lines[:index]):
                missing.append(line.strip())
    return missing


def test_every_value_of_values_yaml_has_a_comment() -> None:
    assert keys_without_comment(VALUES_YAML.read_text(encoding="utf-8")) == []


def test_comments_name_values_that_exist() -> None:
    comments = " ".join(re.findall(r"# (.*)", VALUES_YAML.read_text(encoding="utf-8")))
    groups = {path.split(".")[0] for path in ENTRIES if "." in path}
    named = [word for word in re.findall(r"[a-zA-Z0-9]+(?:\.[a-zA-Z]+)+", comments) if word.split(".")[0] in groups]

    unknown = {word for word in named if word not in ENTRIES and not word.endswith((".yaml", ".md", ".io"))}

    assert unknown == set()
    assert len(named) > 10


def schema_of(file: Path) -> Path:
    """Return the schema that yaml-language-server would use for the file in an editor."""
    first = file.read_text(encoding="utf-8").splitlines()[0]
    (path,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", first)
    return (file.parent / path).resolve()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_editor_accepts_the_file_and_finds_a_misspelt_key(file: Path) -> None:
    validator = editors_validator(schema_of(file))
    values = yaml.safe_load(file.read_text(encoding="utf-8"))

    assert list(validator.iter_errors(values)) == []
    assert [error.json_path for error in validator.iter_errors({**values, "trainr": {}})] == ["$"]
    toleration = {"workers": {**values["workers"], "tolerations": [{"operater": "Exists"}]}}
    assert [error.json_path for error in validator.iter_errors({**values, **toleration})] == [
        "$.workers.tolerations[0]"
    ]


def editors_validator(schema: Path) -> jsonschema.Draft202012Validator:
    """Return a validator that, like editors, follows references to files in the schema's folder."""

    def retrieve(uri: str) -> referencing.Resource[Schema]:
        contents = yaml.safe_load((REPOSITORY / "schemas" / uri).read_text(encoding="utf-8"))
        return DRAFT202012.create_resource(contents)

    registry: Any = referencing.Registry(retrieve=retrieve)  # type: ignore[call-arg]
    contents = yaml.safe_load(schema.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(contents, registry=registry)


def test_list_of_values_has_words_instead_of_regular_expressions(page: str) -> None:
    types = [re.split(r"(?<!\\) \| ", row.strip("| "))[1] for row in page.splitlines() if row.startswith("| `")]

    assert types
    assert [words for words in types if re.search(r"\[[a-zA-Z0-9]+-|\^|\$|matching", words)] == []


@pytest.mark.parametrize("pattern", pattern_words.WORDS)
def test_words_belong_to_a_pattern_of_the_schema(pattern: str) -> None:
    assert f"{json.dumps(pattern)}" in json.dumps(build.read())


def test_pattern_without_words_is_named() -> None:
    with pytest.raises(ValueError, match=r"no words for the pattern \^new\$; add an entry"):
        pattern_words.words_of("^new$")
