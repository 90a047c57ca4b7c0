"""`pytest --resume FILE`: continue a test run that was stopped.

FILE contains tests that have passed. Skip these, and append each further test that passes.

This pytest plugin is for test matrices that take hours. With pytest-xdist, each worker process reads FILE when it
starts.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", type=Path, metavar="FILE", help="the names of the tests that have passed before")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    passed = _passed(config)
    done = [item for item in items if item.nodeid in passed]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item.nodeid not in passed]


class Recorder:
    """Append a test to FILE if it passed and the teardown of its fixtures raised no error.

    With pytest-xdist, the recorder runs in the controller, which receives the reports of all tests.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._passed = file, set[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        elif report.when == "teardown" and report.passed and report.nodeid in self._passed:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--resume")
    if file and not hasattr(config, "workerinput"):
        file.parent.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Recorder(file))


def _passed(config: pytest.Config) -> set[str]:
    file = config.getoption("--resume")
    return set(file.read_text(encoding="utf-8").splitlines()) if file and file.exists() else set()
