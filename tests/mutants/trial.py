"""Run tests in a copy of the tree.

Each test process is forked from a process that has already imported the slow libraries.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY
from tests.mutants import keeper
from tests.mutants.choice import Recorder
from tests.mutants.mutants import Mutant

SLOW_TO_IMPORT = (
    "asyncio", "boto3", "botocore.session", "cryptography.x509", "http.server", "hypothesis", "jsonschema_rs", "numpy",
    "PIL.Image", "pytest_helm_charts", "sklearn.datasets", "urllib.request", "yaml",
)  # fmt: skip
OPTIONS = (
    "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:warnings", "--hypothesis-seed=0", "--import-mode=importlib",
)  # fmt: skip
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
PASSED = 0


@dataclass
class Deadline:
    """A pytest plugin that ends the process if a test takes too long.

    `seconds` maps each test to its duration with the unchanged code.
    """

    seconds: Mapping[str, float]
    # Every test may take at least this many seconds, because a busy machine is several times slower.
    least: float = 60.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        faulthandler.dump_traceback_later(self.least + 5 * self.seconds.get(item.nodeid, 0), exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


class Place:
    """A copy of the tree without files that git ignores."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.root, self._scratch = folder, folder / "tree", folder / "tmp"
        shutil.rmtree(folder, ignore_errors=True)
        self.root.mkdir(parents=True)
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            source = REPOSITORY / name
            if source.is_file() or source.is_symlink():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, self.root / name, follow_symlinks=False)
        for name in SLOW_TO_IMPORT:
            importlib.import_module(name)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def try_mutant(self, mutant: Mutant, tests: Mapping[str, float]) -> int:
        """Run the tests in this order on a copy that contains the mutant, and return pytest's exit code.

        `tests` maps each test to its duration with the unchanged code.
        """
        path = self.root / mutant.path
        source, stat = path.read_bytes(), path.stat()
        try:
            path.write_text(mutant.content, encoding="utf-8")
            # Set a new modification time, because Python uses the old .pyc file if the source's size and time are
            # unchanged.
            os.utime(path, (stat.st_atime, stat.st_mtime + 1 + time.time() % 1e6))
            return self.run(["-x", *tests], 30 + 5 * sum(tests.values()), Deadline(tests))
        finally:
            path.write_bytes(source)
            os.utime(path, (stat.st_atime, stat.st_mtime))

    def record(self, module: Path, sources: Sequence[Path], kept: Path, limit: float) -> int:
        recorder = Recorder(frozenset(str(self.root / path) for path in sources))
        return self.run([str(module)], limit, recorder, kept)

    def run(self, arguments: Sequence[str], limit: float, plugin: object, kept: Path | None = None) -> int:
        """Run pytest in a forked process, and kill all processes that it has started.

        Return pytest's exit code, or TIMED_OUT.
        """
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)
        sys.stdout.flush()
        options = [*OPTIONS, f"--basetemp={self._scratch}", *arguments]
        return keeper.run(lambda: self._in_child(options, plugin, kept), limit)

    def first_failure(self) -> str:
        """Return the name of the test that failed first in the last run.

        Return "" if the run ended before any test failed.
        """
        found = FAILED.search((self._folder / "output").read_text("utf-8", errors="replace"))
        return found[1] if found else ""

    def _in_child(self, arguments: list[str], plugin: object, kept: Path | None) -> int:
        os.chdir(self.root)
        with (self._folder / "output").open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        # Forget the imported modules of the project, so that Python imports them from the copy.
        sys.path[:] = [entry for entry in sys.path if entry and not Path(entry).is_relative_to(REPOSITORY)]
        for name in [*sys.modules]:
            if name.partition(".")[0] in ("tests", "lab", "distrain", "distrain_trainer", "schemas"):
                del sys.modules[name]
        sys.dont_write_bytecode = kept is None
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        code = int(pytest.main(arguments, plugins=[plugin]))
        if kept and isinstance(plugin, Recorder):
            plugin.write(kept, self.root)
        return code


def remove_left_copies(folder: Path) -> None:
    """Remove the copies of processes that have ended. A copy is a folder with the name copy-PID."""
    for copy in folder.glob("copy-*"):
        if not Path("/proc", copy.name.removeprefix("copy-")).exists():
            shutil.rmtree(copy, ignore_errors=True)
