"""After a test run, print which tests could not run on this machine, and why.

A pytest plugin. With pytest-xdist, only the controller prints the list, although each worker process collects all
tests.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from xdist.workermanage import WorkerController

FULL = "the rest of the matrices: `make bench-full` tries it"
_LEFT_OUT = pytest.StashKey[int]()
_OUTPUT = "left_out"


# `trylast` makes this hook run after pytest has applied `-k` and `-m`, so the tests that these options deselect are not
# listed.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of the full matrix, unless FULL=1."""
    if os.environ.get("FULL") == "1":
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    _note(config, len(left_out))
    if hasattr(config, "workeroutput"):
        config.workeroutput[_OUTPUT] = len(left_out)


def pytest_testnodedown(node: WorkerController) -> None:
    _note(node.config, getattr(node, "workeroutput", {}).get(_OUTPUT, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reasons = list(_reasons(terminalreporter.stats, config.stash.get(_LEFT_OUT, 0)))
    if not reasons:
        return
    terminalreporter.section("not tried on this machine")
    for reason, count in reasons:
        terminalreporter.line(f"{count} test{'' if count == 1 else 's'}: {reason}")
    terminalreporter.line("GPUs: no test needs one, and every training ran on the CPU")


def _note(config: pytest.Config, count: int) -> None:
    config.stash[_LEFT_OUT] = max(count, config.stash.get(_LEFT_OUT, 0))


def _reasons(stats: dict[str, list[Any]], left_out: int) -> Iterator[tuple[str, int]]:
    if left_out:
        yield FULL, left_out
    skipped = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in stats.get("skipped", []))
    yield from sorted(skipped.items())
