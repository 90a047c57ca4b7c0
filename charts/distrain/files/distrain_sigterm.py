"""Block SIGTERM in process 1 of a pod until the script has set its handler. Import this module before all others.

The kernel drops a signal that process 1 receives without a handler. After a lost SIGTERM, the pod would run until its
grace period is over.

Python needs a moment to start, and only then can it block signals. A pod may be deleted while Python starts. So the
pod's preStop hook also runs this file, and waits until the script can handle SIGTERM. kubelet sends SIGTERM only after
the hook.
"""

import os
import signal
import time

# This is longer than Python needs to start on a busy node, and shorter than a grace period.
SECONDS_TO_START = 20

if os.getpid() == 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def take_sigterm() -> None:
    """Unblock SIGTERM. A SIGTERM that arrived while SIGTERM was blocked is delivered now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def wait_for_process_1() -> None:
    """Return as soon as process 1 blocks or handles SIGTERM."""
    begun = time.monotonic()
    while not loses_nothing(1) and time.monotonic() - begun < SECONDS_TO_START:
        time.sleep(0.02)


def loses_nothing(pid: int) -> bool:
    """Tell whether the process blocks or handles SIGTERM, according to its signal masks (proc_pid_status(5))."""
    with open(f"/proc/{pid}/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    return any(int(fields[name], 16) >> (signal.SIGTERM - 1) & 1 for name in ("SigBlk", "SigCgt"))


if __name__ == "__main__":
    wait_for_process_1()
