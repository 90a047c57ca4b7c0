"""Test that the pages' values files render, and that two pages together list every key that values.yaml lacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chart.rendering import REPOSITORY, render
from tests.chart.values.schema_entries import OPTIONAL

PAGE = (REPOSITORY / "docs" / "platforms.md").read_text(encoding="utf-8")
RECIPE_PAGE = (REPOSITORY / "docs" / "recipe.md").read_text(encoding="utf-8")
SCRIPT_PAGE = (REPOSITORY / "docs" / "own-script.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE + SCRIPT_PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_values_of_the_page_render(helm: Path, tmp_path: Path, example: str) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(example, encoding="utf-8")

    assert render(helm, "--values", str(file)).job


def test_pages_name_every_value_that_values_yaml_leaves_out() -> None:
    keys = {path.rpartition(".")[2] for path in OPTIONAL}

    assert keys
    assert {key for key in keys if not re.search(rf"`(trainer\.)?{key}`", PAGE + RECIPE_PAGE)} == set()
