"""Test that `--resume` continues a test run that was stopped, with one test process and with two."""

from __future__ import annotations

import pytest

from lab.paths import REPOSITORY
from tests.matrix import one_of

pytest_plugins = ("pytester",)

TESTS = """
import os, pytest
@pytest.fixture
def untidy():
    yield
    assert os.environ.get("MENDED")
def test_that_passes(): pass
def test_that_fails(): assert os.environ.get("MENDED")
def test_whose_fixture_fails_at_its_end(untidy): pass
"""


@pytest.mark.parametrize("processes", one_of(["0", "2"]))
def test_only_what_has_not_passed_runs_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makepyfile(TESTS)
    run = ("-p", "tests.resumed", "-n", processes, "--resume", "passed/before")
    first = pytester.runpytest_subprocess(*run)
    monkeypatch.setenv("MENDED", "yes")
    second = pytester.runpytest_subprocess(*run)
    third = pytester.runpytest_subprocess(*run)

    first.assert_outcomes(passed=2, failed=1, errors=1)
    second.assert_outcomes(passed=2, deselected=0 if processes == "2" else 1)
    assert third.ret == pytest.ExitCode.NO_TESTS_COLLECTED
