"""Run the scripts that restart a pod's program, as real processes without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chart.scripts import pods

# The program counts how often it was started, so that a test can make each start behave differently.
COUNT = "echo x >>tries; try=$(wc -l <tries)"

OUT_OF_MEMORY = (
    "out of memory: a process of this pod was killed at its limit; raise the memory of this pod's role, such as "
    "workers.memory"
)
# Shorten the scripts' waiting times for the tests, and read the cgroup from a folder in the working directory.
REPLACED = (
    ("LONGEST_PAUSE = 10", "LONGEST_PAUSE = 0"),
    ("SECONDS_TO_END_TOGETHER = 2", "SECONDS_TO_END_TOGETHER = 0"),
    ("SECONDS_HALTED = 30", "SECONDS_HALTED = 1"),
    ('CGROUP = "/sys/fs/cgroup"', 'CGROUP = "cgroup"'),
)


def put_oom_kills(folder: Path, count: int, file: str = "memory.events") -> None:
    """Write the OOM counters that the kernel would show in the pod's cgroup."""
    path = folder / "cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"under_oom 0\noom_kill {count}\n")


@dataclass(frozen=True)
class Bench:
    """A folder in which one of the supervising scripts runs shell programs.

    The script pauses for 0 s before it starts a program again, or for 1 s if the test asks for this.
    """

    folder: Path
    script: str

    def start(
        self, program: str, *options: str, before: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[str]:
        (self.folder / "log").write_text("")
        script = f"{pods.changed_scripts(*REPLACED).name}/{self.script}"
        log = f"--termination-log={self.folder}/log"
        return subprocess.Popen(
            [*before, sys.executable, script, log, *options, "--", "sh", "-c", program],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, program: str, *options: str, before: Sequence[str] = (), **environment: str) -> tuple[int, str]:
        """Return the exit code and the output."""
        process = self.start(program, *options, before=before, **environment)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    @property
    def cause(self) -> str:
        return (self.folder / "log").read_text()
