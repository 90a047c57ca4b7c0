"""Run a command as a user would, and measure its time and its memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from lab.builds.golang import binary
from lab.errors import LabError
from lab.paths import KUBECONFIG

# If a case has many runs, the bench runs this many commands at the same time.
AT_ONCE = 4

# A command's peak memory includes the memory of the process that starts it. So a small process starts each command.
WATCH = """
import resource, subprocess, sys, time
started = time.monotonic()
code = subprocess.call(sys.argv[2:])
seconds, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{seconds} {used.ru_maxrss}")
sys.exit(code)
"""


class Measured(NamedTuple):
    """The duration of a command in seconds, and the peak resident memory of its largest process in MB."""

    seconds: float
    megabytes: float


class Client(NamedTuple):
    """Runs a user's commands. `plugin` is the path of the packaged plugin's program."""

    plugin: Path
    namespace: str

    def distrain(self, *arguments: str, output: Path | None = None) -> Measured:
        return measured([str(self.plugin), *arguments, "--namespace", self.namespace], _environment(), output)

    def helm(self, *arguments: str) -> Measured:
        return measured([str(binary("helm4")), *arguments, "--namespace", self.namespace], _environment())


def together(commands: Iterable[Callable[[], Measured]]) -> Measured:
    """Run these commands, AT_ONCE of them in parallel.

    Return how long all commands took together, and the highest memory of any command.
    """
    started = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = [each.result() for each in [pool.submit(command) for command in commands]]
    return Measured(round(time.monotonic() - started, 2), max(each.megabytes for each in found))


def measured(command: Sequence[str], environment: Mapping[str, str], output: Path | None = None) -> Measured:
    """Run the command and write its stdout to the file `output`. Raises LabError if the command fails."""
    with open(output or os.devnull, "w") as out, TemporaryDirectory(prefix="bench-") as folder:
        figures = Path(folder, "figures")
        watched = [sys.executable, "-I", "-S", "-c", WATCH, str(figures), *command]
        done = subprocess.run(
            watched,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LabError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
        seconds, kilobytes = map(float, figures.read_text().split())
    return Measured(round(seconds, 2), round(kilobytes * 1024 / 1e6))


def _environment() -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(KUBECONFIG), "HELM_BIN": str(binary("helm4"))}
