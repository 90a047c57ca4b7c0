"""Measure how long the plugin takes to start, compared with a Python that does nothing.

The packaged plugin runs in its own Python environment, as Helm runs it. Each figure is a ratio of medians. The programs
run in turns, so that other load on the machine slows all of them down equally.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.builds.golang import binary
from lab.builds.installed import installed
from lab.paths import REPOSITORY

ROUNDS = 20
# The limit of each command, in starts of Python.
LIMITS = {"--help": 4, "completion": 4, "derive": 15}
GIVEN = REPOSITORY / "tests" / "plugin" / "golden" / "given.yaml"
PYTHON = "python -I -c pass"

Command = Sequence[str]


def main() -> int:
    """Measure, print a line per figure, and return 1 if a figure is over its limit."""
    slow = False
    for helm in ("helm3", "helm4"):
        with TemporaryDirectory(prefix="bench-") as folder:
            seconds = measure(_commands(installed(Path(folder))), _environment(helm))
        start = seconds.pop(PYTHON)
        for name, median in seconds.items():
            ratio = median / start
            slow |= ratio > LIMITS[name]
            took = f"{1000 * median:.0f} ms, {ratio:.1f} x `{PYTHON}` ({1000 * start:.0f} ms)"
            print(f"distrain {name}, {helm}: {took}; at most {LIMITS[name]} x")
    return int(slow)


def measure(commands: Mapping[str, Command], environment: Mapping[str, str]) -> dict[str, float]:
    """Return the median seconds of each command."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    # Drop the first round, because the page cache is empty then.
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


def _commands(plugin: Path) -> dict[str, Command]:
    program = str(plugin / "bin" / "distrain")
    return {
        PYTHON: [str(plugin / ".venv" / "bin" / "python"), "-I", "-c", "pass"],
        "--help": [program, "--help"],
        "derive": [program, "derive", "--node-gpus", "8", "-f", str(GIVEN)],
        "completion": [str(plugin / "plugin.complete"), "check", "--"],
    }


def _environment(helm: str) -> dict[str, str]:
    return {**os.environ, "HELM_BIN": str(binary(helm)), "HELM_PLUGIN_NAME": "distrain", "KUBECONFIG": os.devnull}


if __name__ == "__main__":
    sys.exit(main())
