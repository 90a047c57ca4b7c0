"""The scripts that start a pod's program again, as real processes without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chart.scripts.pods import SCRIPTS

# For a program that does something else at each try.
COUNT = "echo x >>tries; try=$(wc -l <tries)"


@dataclass(frozen=True)
class Bench:
    """A folder in which a script supervises programs of sh; between two starts nothing is waited for, else a second."""

    folder: Path
    script: str

    def start(
        self, program: str, *options: str, before: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[str]:
        (self.folder / "log").write_text("")
        for path in (SCRIPTS / self.script, *SCRIPTS.glob("distrain_*.py")):
            text = path.read_text().replace("LONGEST_PAUSE = 10", "LONGEST_PAUSE = 0")
            text = text.replace("SECONDS_TO_END_TOGETHER = 2", "SECONDS_TO_END_TOGETHER = 0")
            text = text.replace("SECONDS_HALTED = 30", "SECONDS_HALTED = 1")
            (self.folder / path.name).write_text(text)
        log = f"--termination-log={self.folder}/log"
        return subprocess.Popen(
            [*before, sys.executable, str(self.folder / self.script), log, *options, "--", "sh", "-c", program],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, program: str, *options: str, before: Sequence[str] = (), **environment: str) -> tuple[int, str]:
        """Return the exit code, and what was printed."""
        process = self.start(program, *options, before=before, **environment)
        output, _ = process.communicate(timeout=20)
        return process.returncode, output

    @property
    def cause(self) -> str:
        return (self.folder / "log").read_text()
