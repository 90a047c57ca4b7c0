"""Run a function in a forked process with its own PID namespace.

Afterwards, kill all processes that the function has started.

Some scripts of the chart run as process 1 of a pod, and send signals to every process that they see. Such a script may
be a mutant and send wrong signals, but from its own PID namespace they cannot reach other processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable

# The exit code of a function that did not end within the time limit.
TIMED_OUT = 255
# From linux/sched.h and linux/mount.h.
CLONE_NEWNS, CLONE_NEWPID = 0x20000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SECONDS_BETWEEN_CHECKS = 0.02


def run(function: Callable[[], int], limit: float) -> int:
    """Return the function's result as an exit code, or TIMED_OUT if it runs longer than `limit` seconds."""
    if os.geteuid() != 0:
        raise PermissionError("only root can make a PID namespace; run it as root")
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
    _system_call("unshare", CLONE_NEWPID | CLONE_NEWNS)
    first = os.fork()
    if first == 0:
        for number in (signal.SIGTERM, signal.SIGHUP):  # nohup ignores SIGHUP.
            signal.signal(number, signal.SIG_DFL)
        _exit_with(lambda: _run_as_first_process(function))
    status = None
    try:
        status = _wait(first, limit)
        return TIMED_OUT if status is None else _exit_code(status)
    finally:
        if status is None:  # When process 1 is killed, the kernel kills all other processes of its PID namespace.
            os.kill(first, signal.SIGKILL)
            os.waitpid(first, 0)


def _wait(child: int, limit: float) -> int | None:
    """Return the child's wait status, or None if it has not ended within `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(SECONDS_BETWEEN_CHECKS)
    return None


def _run_as_first_process(function: Callable[[], int]) -> int:
    """Run the function in a child process. As process 1, also reap orphaned processes."""
    _system_call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    _system_call("mount", b"proc", b"/proc", b"proc", 0, None)
    child = os.fork()
    if child == 0:
        os.setsid()
        _exit_with(function)
    done, status = 0, 0
    while done != child:
        done, status = os.wait()
    return _exit_code(status)


def _system_call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def _exit_with(function: Callable[[], int]) -> None:
    code = 1
    try:
        code = function()
    finally:
        os._exit(code)


def _exit_code(status: int) -> int:
    """Convert a wait status to an exit code from 0 to 255.

    A process that was killed by a signal gets an exit code in this range, too.
    """
    return os.waitstatus_to_exitcode(status) % 256
