"""Collect the logs and outputs of failed tests in one folder, and print the folder's name as the last line.

A pytest plugin. All pytest-xdist processes share the folder, which is created at the first failure.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.workermanage import WorkerController

from lab.cluster.lifecycle import FAILED_LOG_DIR
from lab.errors import LabError
from lab.paths import CACHE_DIR

_FOLDER = pytest.StashKey[Path]()
_INPUT = "evidence"


def pytest_configure(config: pytest.Config) -> None:
    name = f"tests-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    from_controller = getattr(config, "workerinput", {}).get(_INPUT)
    config.stash[_FOLDER] = Path(from_controller or CACHE_DIR / "logs" / name)


def pytest_configure_node(node: WorkerController) -> None:
    node.workerinput[_INPUT] = str(folder_of_run(node.config))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, Any, Any]:
    """Print the folder's name after pytest's own summary."""
    result = yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    folder = folder_of_run(session.config)
    if terminal and folder.exists():
        terminal.write_line(f"what the failed tests left is in {folder}")
    return result


def folder_of_run(config: pytest.Config) -> Path:
    return config.stash[_FOLDER]


def folder_of_test(item: pytest.Item, report: pytest.TestReport) -> Path:
    """Create the folder for a failed setup, call or teardown of a test, and write the failure into it."""
    phase = "" if report.when == "call" else f"-{report.when}"
    name = re.sub(r"[^\w.-]+", "-", item.nodeid.removeprefix("tests/")).strip("-")
    folder = folder_of_run(item.config) / f"{name[:200]}{phase}"
    folder.mkdir(parents=True, exist_ok=True)
    sections = "".join(f"\n{title}\n{text}" for title, text in report.sections)
    (folder / "failure.txt").write_text(f"{report.longreprtext}\n{sections}")
    return folder


@contextlib.contextmanager
def one_start_of_the_lab(folder: Path) -> Iterator[None]:
    """If the lab fails to start, save the error message and the logs.

    If the first process fails to start the lab, all other processes of the test run raise LabError with its message. If
    they tried to start the lab too, their messages would differ and hide the first cause.
    """
    words = folder / "lab-start.txt"
    if words.exists():
        raise LabError(words.read_text())
    try:
        yield
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        words.write_text(f"{error}")
        if FAILED_LOG_DIR.exists():
            shutil.copytree(FAILED_LOG_DIR, folder / "lab-logs", dirs_exist_ok=True)
        raise
