"""Block SIGTERM in process 1 of a pod until the script has set its handler. Imported before all other modules.

The kernel drops signals to process 1 that have no handler. The pod would then run until its grace period is over.

Python needs a moment to start before it can block anything. A pod that may be deleted within this moment runs this file
as its hook preStop, which kubelet runs before it sends SIGTERM.
"""

import os
import signal
import time

# Longer than a start of Python on a busy node, and shorter than a grace period.
SECONDS_TO_START = 20

if os.getpid() == 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def take_sigterm() -> None:
    """Deliver SIGTERM from now on, also one that came while it was blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def wait_for_process_1() -> None:
    """Return once process 1 blocks or handles SIGTERM."""
    begun = time.monotonic()
    while not loses_nothing(1) and time.monotonic() - begun < SECONDS_TO_START:
        time.sleep(0.02)


def loses_nothing(pid: int) -> bool:
    """Return whether SIGTERM is in the process's masks of blocked or handled signals (proc_pid_status(5))."""
    with open(f"/proc/{pid}/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    return any(int(fields[name], 16) >> (signal.SIGTERM - 1) & 1 for name in ("SigBlk", "SigCgt"))


if __name__ == "__main__":
    wait_for_process_1()
