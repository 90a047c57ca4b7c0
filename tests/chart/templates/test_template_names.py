"""Test that a template's name begins with its file's name: `distrain.validate.job.rescale` is in _validate-job.tpl."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.paths import CHART

TEMPLATES = sorted(path for path in (CHART / "templates").rglob("*") if path.is_file())
DEFINE = re.compile(r'\{\{-? *define "([^"]+)"')


def defines() -> Iterator[tuple[str, str]]:
    """Yield the name of each named template, and its file's name without the extension and the leading underscore."""
    for path in TEMPLATES:
        for name in DEFINE.findall(path.read_text(encoding="utf-8")):
            yield name, stem(path.name)


def stem(file: str) -> str:
    return file.removeprefix("_").partition(".")[0]


def expected_stem(name: str) -> str | None:
    """The template's name begins with the name of the file that defines it.

    Return the longest file name for which this is true.

    A hyphen in a file's name may be a dot in the template's name.
    """
    words = name.removeprefix("distrain.").replace(".", "-")
    return max((one for one in STEMS if f"{words}-".startswith(f"{one}-")), key=len, default=None)


STEMS = {stem(path.name) for path in TEMPLATES}


def test_prefix_of_a_named_template_is_its_file() -> None:
    found = list(defines())

    assert len(found) > 100
    assert [name for name, _ in found if not name.startswith("distrain.")] == []
    assert [(name, file) for name, file in found if expected_stem(name) != file] == []


def test_no_two_files_of_named_templates_have_one_name() -> None:
    """The names of templates begin with the name of their file, without its folder.

    So two files with named templates must not have the same name, even in different folders.
    """
    names = [path.name for path in TEMPLATES if path.name.startswith("_")]

    assert len(names) == len(set(names))


def test_no_two_templates_have_one_name() -> None:
    names = [name for name, _ in defines()]

    assert len(names) == len(set(names))
