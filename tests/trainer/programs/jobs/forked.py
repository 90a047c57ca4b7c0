"""Runs inside the image: start a command as each rank of a PyTorch run, with the environment variables of torchrun.

    python3 forked.py RANKS python3 -m MODULE ARGUMENTS...

Importing PyTorch or TensorFlow takes 3 seconds of processor time. With torchrun, torchrun itself and each rank would
import PyTorch. Here a single process imports PyTorch, and the ranks are forks of that process.
"""

from __future__ import annotations

import importlib
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO


class Forked:
    """A forked process that runs `python3 -m MODULE ...` or `python3 SCRIPT ...`.

    It has the methods of subprocess.Popen.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self.returncode: int | None = None
        self._pid = os.fork()
        if self._pid == 0:
            redirect(stdout, stderr)
            change_environment(env)
            run(command[1:])
            sys.exit()

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float = float("inf")) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("python3", timeout)
            time.sleep(0.05)
        return code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, which: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self._pid, which)


def redirect(stdout: IO[bytes] | None, stderr: IO[bytes] | None) -> None:
    for file, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        if file is not None:
            os.dup2(file.fileno(), stream.fileno())


def change_environment(env: Mapping[str, str]) -> None:
    if "PYTHONPATH" not in env:
        hidden = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [folder for folder in sys.path if folder not in hidden]
    os.environ.clear()
    os.environ.update(env)


def run(arguments: Sequence[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = [*arguments[1:]]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [*arguments]
        runpy.run_path(arguments[0], run_name="__main__")


def prepare(framework: str) -> None:
    """Set the environment variables as distrain_trainer does before it imports a framework, then import it."""
    os.environ.update(OMP_WAIT_POLICY="PASSIVE", TF_CPP_MIN_LOG_LEVEL="2", TORCH_CPP_LOG_LEVEL="ERROR")
    importlib.import_module(framework)


def main() -> None:
    ranks, *command = sys.argv[1:]
    prepare("torch")
    of_all = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    of_each = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(int(ranks))]
    sys.exit(end_of([Forked(command, env={**os.environ, **of_all, **of_one}) for of_one in of_each]))


def free_port() -> str:
    """Return a free port below 32768.

    Linux uses ports from 32768 on for outgoing connections, so no connection takes this port in the meantime.
    """
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("localhost", port := random.randrange(20_000, 32_768)))
            return str(port)


def end_of(processes: Sequence[Forked]) -> int:
    """Wait until all processes have succeeded, or until one has failed.

    Then kill the processes that are still running. Return the exit code.
    """
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            break
        time.sleep(0.05)
    for process in processes:
        process.kill()
        process.wait()
    return max(failed, default=0)


if __name__ == "__main__":
    main()
