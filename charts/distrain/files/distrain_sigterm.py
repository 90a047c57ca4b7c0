"""Block SIGTERM in process 1 of a pod until the script has set its handler. Imported before all other modules.

The kernel drops signals to process 1 that have no handler. The pod would then run until its grace period is over.
"""

import os
import signal

if os.getpid() == 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])


def take_sigterm() -> None:
    """Deliver SIGTERM from now on, also one that came while it was blocked."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
