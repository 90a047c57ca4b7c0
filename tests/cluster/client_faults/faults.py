"""Run a command of the plugin with a fault: closed streams, signals, an unreachable API server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.builds import golang
from lab.paths import REPOSITORY
from lab.waiting import wait_until
from tests.cluster.client_faults.proxy import ApiProxy

AWAY_SECONDS = 30
SECONDS_BETWEEN_SIGNALS = 0.3
# Maps a fault of stdin, stdout or stderr, written as shell code, to the script that runs the command with this fault.
# The scripts with a pipe still return the command's exit code, not that of `head`.
STREAMS = {
    "\\| head -1": '"$@" | head -1; exit ${PIPESTATUS[0]}',
    "> /dev/full": '"$@" > /dev/full',
    "2>&1 \\| head -3": '"$@" 2>&1 | head -3; exit ${PIPESTATUS[0]}',
    "<&-": '"$@" <&-',
    ">&-": '"$@" >&-',
    "2>&-": '"$@" 2>&-',
}
# Maps a fault to the signals that the command receives. SIGINT and SIGHUP go to the whole process group, as they do
# from a terminal.
SIGNALS = {
    "nohup, SIGHUP": (signal.SIGHUP,),
    "SIGTERM": (signal.SIGTERM,),
    "SIGINT": (signal.SIGINT,),
    "SIGINT twice": (signal.SIGINT, signal.SIGINT),
    "SIGKILL, again": (signal.SIGKILL,),
}
AWAY, FULL = f"API server away for {AWAY_SECONDS} s", "TMPDIR full"


@dataclass(frozen=True)
class Ended:
    """The exit code of a command (negative if a signal ended it), and the lines that it printed to stderr."""

    code: int
    lines: list[str]

    @property
    def last(self) -> str:
        return self.lines[-1] if self.lines else ""


@dataclass(frozen=True)
class Client:
    """Runs the plugin with a kubeconfig that leads to the proxy. `folder` is the HOME of the plugin's process."""

    folder: Path
    kubeconfig: Path
    proxy: ApiProxy

    def run(self, arguments: Sequence[str], fault: str = "", moment: int = 0, *, answered: bool = False) -> Ended:
        """Run a command of the plugin with this fault, and wait until the plugin and its Helm have ended.

        The fault hits when the proxy receives piece number `moment` of the command's data.
        """
        command = [sys.executable, "-m", "distrain", *arguments, "--kubeconfig", str(self.kubeconfig)]
        if fault in STREAMS:
            command = ["bash", "-c", STREAMS[fault], "bash", *command]
        if fault.startswith("nohup"):
            command = ["nohup", *command]
        with _temporary_folder(self.folder, full=fault == FULL) as temporary, (self.folder / "err").open("w+") as err:
            process = subprocess.Popen(
                command,
                env=self._environment(temporary),
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=(self.folder / "out").open("w"),
                stderr=err,
                start_new_session=True,
            )
            act = partial(_signal, process, SIGNALS[fault]) if fault in SIGNALS else self._away
            if moment:
                self.proxy.at(self.proxy.pieces + moment, act, answered=answered)
            code = process.wait(timeout=600)
            wait_until("Helm's end", lambda: not _uses(self.kubeconfig), seconds=300)
            self.proxy.come_back()
            err.seek(0)
            return Ended(code, err.read().splitlines())

    def _away(self) -> None:
        self.proxy.go_away()
        timer = threading.Timer(AWAY_SECONDS, self.proxy.come_back)
        timer.daemon = True
        timer.start()

    def _environment(self, temporary: Path) -> dict[str, str]:
        own = {"PYTHONPATH": str(REPOSITORY / "plugin"), "HELM_BIN": str(golang.binary("helm4"))}
        return {**os.environ, **own, "HOME": str(self.folder), "TMPDIR": str(temporary)}


def _signal(process: subprocess.Popen[bytes], numbers: Sequence[signal.Signals]) -> None:
    for count, number in enumerate(numbers):
        time.sleep(SECONDS_BETWEEN_SIGNALS if count else 0)
        if process.poll() is None:
            send: Callable[[int, int], None] = os.kill if number in (signal.SIGTERM, signal.SIGKILL) else os.killpg
            send(process.pid, number)


def _uses(kubeconfig: Path) -> bool:
    """Tell whether a Helm process with this kubeconfig still runs: Helm can outlive the plugin that started it."""
    wanted = str(kubeconfig).encode()
    return any(wanted in _command_line(path) for path in Path("/proc").glob("[0-9]*/cmdline"))


def _command_line(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # The process has ended.
        return b""


@contextmanager
def _temporary_folder(folder: Path, *, full: bool) -> Iterator[Path]:
    """Yield a folder for temporary files. With `full`, the folder is on a file system that has only 4 KiB left."""
    path = folder / "tmp"
    path.mkdir(exist_ok=True)
    if not full:
        yield path
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)], check=True)
    try:
        (path / "other").write_bytes(b"x" * (15 << 12))
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)
