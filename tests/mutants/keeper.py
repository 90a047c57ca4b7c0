"""Run a function in a forked process, and end everything that it leaves, also what has a session of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

# The exit code after the time limit.
TIMED_OUT = 255
# From linux/prctl.h: a process that has lost its parent becomes a child of this one.
PR_SET_CHILD_SUBREAPER = 36
SECONDS_BETWEEN_CHECKS = 0.02


def run(function: Callable[[], int], limit: float) -> int:
    """Return the function's result as an exit code, or TIMED_OUT after `limit` seconds."""
    keeper = os.fork()
    if keeper == 0:
        _exit_with(lambda: _keep(function, limit))
    try:
        return _exit_code(os.waitpid(keeper, 0)[1])
    except BaseException:
        os.kill(keeper, signal.SIGTERM)
        os.waitpid(keeper, 0)
        raise


def _keep(function: Callable[[], int], limit: float) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _exit_with(function)
    try:
        return _wait(child, limit)
    finally:
        _end_children()


def _exit_with(function: Callable[[], int]) -> None:
    code = 1
    try:
        code = function()
    finally:
        os._exit(code)


def _wait(child: int, limit: float) -> int:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return _exit_code(status)
        time.sleep(SECONDS_BETWEEN_CHECKS)
    return TIMED_OUT


def _exit_code(status: int) -> int:
    """Return an exit code between 0 and 255, for a signal's end too."""
    return os.waitstatus_to_exitcode(status) % 256


def _end_children() -> None:
    """Kill the children, and those who become children then."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while found := children.read_text().split():
        for pid in map(int, found):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
