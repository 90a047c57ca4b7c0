"""Choose the tests for a mutant: those that execute the changed statement, the fastest first, up to a time limit.

To find these tests, the bench runs each test module once with the unchanged sources. The bench caches the executed
lines and the duration of each test.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
import time
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.mutants.mutants import Mutant

# With the unchanged code, the tests that are chosen for a mutant take at most this many seconds in total.
SECONDS = 40.0
# For scripts and templates, coverage cannot tell which tests execute the changed line. Any test of the part may be
# chosen for them, the quickest first, up to this many seconds in total.
SECONDS_UNTRACED = 600.0


@dataclass
class Recorder:
    """A pytest plugin that records how long each passed test takes, and which lines of `sources` it executes."""

    sources: frozenset[str]
    lines: dict[str, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    _now: set[str] = field(default_factory=set)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._now = self.lines.setdefault(item.nodeid, set())
        started = time.monotonic()
        if self.sources:
            threading.settrace(self._called)
            sys.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.seconds[item.nodeid] = time.monotonic() - started

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.failed.add(report.nodeid)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if frame.f_code.co_filename in self.sources else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self._now.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self._line

    def write(self, kept: Path, root: Path) -> None:
        """Write the records. Leave out failed and skipped tests."""
        good = [name for name in self.seconds if name not in self.failed]
        lines = {name: sorted(line.removeprefix(f"{root}/") for line in self.lines[name]) for name in good}
        kept.write_text(json.dumps({name: (self.seconds[name], lines[name]) for name in good}))


# Maps each test to its duration in seconds and the lines that it executes.
Recorded = dict[str, tuple[float, list[str]]]


def tests_of(mutant: Mutant, source: str, recorded: Recorded, *, is_traced: bool) -> list[str]:
    """Return the tests that execute a mutant's statement.

    A statement outside all functions is executed when its module is imported, before any test. For such a statement, or
    if the source is not traced, return every test, because any test may notice the mutant.
    """
    statement = statement_lines(source, mutant.line) if is_traced else whole_of(source)
    wanted = {f"{mutant.path}:{line}" for line in statement}
    executing = {name for name, (_, lines) in recorded.items() if not wanted.isdisjoint(lines)}
    others = recorded.keys() - executing if statement == whole_of(source) else set()
    limit = SECONDS if is_traced else SECONDS_UNTRACED
    return [*_quickest(executing, recorded, limit), *_quickest(others, recorded, limit)]


def _quickest(names: AbstractSet[str], recorded: Recorded, limit: float) -> list[str]:
    chosen: list[str] = []
    total = 0.0
    for seconds, name in sorted((recorded[name][0], name) for name in names):
        if total + seconds > limit and chosen:
            break
        chosen.append(name)
        total += seconds
    return chosen


def statement_lines(source: str, line: int) -> range:
    """Return the lines of the statement that contains this line.

    Of a block, only the head counts. Of a function or class, all lines count.

    A statement outside all functions is executed at import. For such a statement, return all lines of the module.
    """
    whole = whole_of(source)
    inner = (whole, False)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            inner = _lines_of(node, line, whole, inner)
    lines, is_in_function = inner
    return lines if is_in_function else whole


def whole_of(source: str) -> range:
    return range(1, len(source.splitlines()) + 1)


def _lines_of(node: ast.stmt, line: int, whole: range, outer: tuple[range, bool]) -> tuple[range, bool]:
    end = (node.end_lineno or 0) + 1
    if isinstance(node, ast.FunctionDef):
        return range(node.lineno, end), True
    if isinstance(node, ast.ClassDef):
        return range(node.lineno, end), outer[1]
    body = getattr(node, "body", None)
    return range(node.lineno, body[0].lineno if body and line < body[0].lineno else end), outer[1]
