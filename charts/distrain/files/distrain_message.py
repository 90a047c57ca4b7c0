"""Print lines, and write a container's termination message.

The importing scripts run in any image: hence Python 3.6 and only the standard library.
"""

import contextlib
import os

TERMINATION_LOG = "/dev/termination-log"


def leave_message(line: str, path: str = TERMINATION_LOG) -> None:
    try:
        # Do not create the file: it is missing outside Kubernetes, where nobody reads it.
        # Text that is invalid in the locale's encoding contains surrogates, which UTF-8 cannot encode.
        with open(path, "r+", encoding="utf-8", errors="backslashreplace") as log:
            log.write(line)
            log.truncate()
    except OSError:
        pass


def fail(cause: str, code: int, path: str = TERMINATION_LOG) -> int:
    """Write the cause as the container's termination message, print it, and return the code."""
    line = "distrain: " + cause[:2000]
    leave_message(line, path)
    print_line(line)
    return code


def print_line(line: str) -> None:
    """Print a line on stderr. A signal handler may call this: print() is an error if the signal came during a print().

    Nobody may read stderr any more. The script goes on all the same.
    """
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "backslashreplace") + b"\n")
