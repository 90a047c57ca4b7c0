"""What process 1 of a pod imports first: a SIGTERM that comes before its handler is kept for it.

Process 1 loses a signal without a handler, and the pod waits for the end of its grace period.
"""

import os
import signal

if os.getpid() == 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def take_sigterm() -> None:
    """Let SIGTERM come from now on."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
