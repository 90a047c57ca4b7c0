"""Test the choices of `make bench-mutants`: its files exist, and a mutant runs the tests of its statement."""

from __future__ import annotations

import pytest
import yaml

from lab.paths import REPOSITORY
from tests.mutants import choice, templates
from tests.mutants.mutants import Mutant
from tests.mutants.parts import PARTS

SOURCE = """\
LIMIT = 1

def first(a):
    if (
        a
    ):
        return LIMIT
    return 2


class Second:
    SIZE = 3

    def third(self, b=4):
        for each in b:
            print(
                each
            )
"""


@pytest.mark.parametrize("pattern", [one for part in PARTS for one in (*part.sources, *part.tests)])
def test_part_names_files_that_exist(pattern: str) -> None:
    assert [*REPOSITORY.glob(pattern)]


def test_listed_mutants_are_of_lines_that_exist() -> None:
    listed = yaml.safe_load((REPOSITORY / "tests/mutants/equivalent.yaml").read_text("utf-8"))

    for one in listed:
        lines = [line.strip() for line in (REPOSITORY / one["file"]).read_text("utf-8").splitlines()]
        assert " ".join(lines).count(one["line"]), one
        assert one["reason"]


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        pytest.param(1, range(1, 19), id="module"),
        pytest.param(3, range(3, 9), id="signature"),
        pytest.param(5, range(4, 7), id="condition"),
        pytest.param(7, range(7, 8), id="branch"),
        pytest.param(12, range(1, 19), id="class"),
        pytest.param(14, range(14, 19), id="method"),
        pytest.param(15, range(15, 16), id="loop"),
        pytest.param(17, range(16, 19), id="call"),
    ],
)
def test_line_belongs_to_its_innermost_statement(line: int, lines: range) -> None:
    assert choice.statement_lines(SOURCE, line) == lines


def test_mutant_runs_the_quickest_tests_that_execute_its_statement() -> None:
    mutant = Mutant("a.py", 7, "first", "return LIMIT", "return None", "")
    recorded = {
        "slow": (30.0, ["a.py:7"]),
        "slower": (31.0, ["a.py:7"]),
        "quick": (0.1, ["a.py:4", "a.py:7"]),
        "other": (0.1, ["a.py:8", "b.py:7"]),
    }

    assert choice.tests_of(mutant, SOURCE, recorded, is_traced=True) == (["quick", "slow"], 30.1)
    assert choice.tests_of(mutant, SOURCE, recorded, is_traced=False)[0] == ["other", "quick", "slow"]


def test_template_has_a_mutant_for_each_decision() -> None:
    source = '{{- if and .a (eq .b "c") }}\nkey: {{ .d }}\n{{- end }}\n{{- /*\nkey: if and\n*/}}\n'

    assert templates.mutants(source) == sorted([
        source.replace("and .a", "or .a"),
        source.replace("eq .b", "ne .b"),
        source.replace('and .a (eq .b "c")', 'not (and .a (eq .b "c"))'),
        source.replace("key: {{ .d }}\n", ""),
    ])  # fmt: skip
