"""Run Helm without pyhelm3, for what pyhelm3 cannot do. Most other Helm commands run with pyhelm3 in releases.py.

pyhelm3 cannot start Helm at once, because importing pyhelm3 takes longer than rendering the chart with Helm. pyhelm3
also cannot give Helm its own process group. If Helm were in the plugin's group, Ctrl-C in a terminal would end Helm in
the middle of a change, but the plugin must finish or undo the change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from subprocess import PIPE
from typing import IO

from distrain import temporary
from distrain.helm.program import failure

# Without these settings, Go's garbage collection would take a fifth of the time of a rendering. Helm can do without
# garbage collection, because it exits before it uses much memory.
WITHOUT_COLLECTION = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
# Put this before a command to run the command in a new process group.
OWN_GROUP = (sys.executable, "-Ic", "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])")


class Runs:
    """Helm processes that run in parallel and read the same stdin. None of these processes changes the cluster."""

    def __init__(self, executable: str, commands: Sequence[Sequence[str]], stdin: bytes | None) -> None:
        self._processes = []
        for command in commands:
            # Use a file for stdin, not a pipe: a process can then read its whole input, even while the plugin waits for
            # another process.
            with tempfile.TemporaryFile() as given:
                given.write(stdin or b"")
                given.seek(0)
                self._processes.append(_started(executable, command, given))

    def outputs(self) -> list[str]:
        """Wait for all processes and return their outputs. Raise the error of the first process that failed."""
        ended = [process.communicate() for process in self._processes]
        for process, (_, error) in zip(self._processes, ended, strict=True):
            if process.returncode:
                raise failure(error.decode(errors="replace"))
        return [output.decode() for output, _ in ended]


class WaitingRun(Runs):
    """A Helm process that is started before its values are known, and that waits for them on stdin.

    Starting Helm takes longer than rendering, so the plugin starts Helm early and does other work meanwhile.
    """

    def __init__(self, executable: str, command: Sequence[str]) -> None:
        process = _started(executable, command, PIPE)
        temporary.processes.append(process)
        self._processes = [process]

    def give(self, stdin: bytes) -> None:
        """Write the values to Helm's stdin, and close it. If Helm has already failed, `outputs` raises the error."""
        [process] = self._processes
        assert process.stdin
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(stdin)
        # Otherwise `communicate` would flush stdin, which is already closed.
        process.stdin = None


def _started(executable: str, command: Sequence[str], stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
    environment = {**WITHOUT_COLLECTION, **os.environ}
    return subprocess.Popen([executable, *command], stdin=stdin, stdout=PIPE, stderr=PIPE, env=environment)
