"""Print lines, and write a container's termination message.

The scripts that import this module run in any image, so the module uses only Python 3.6 and its standard library.
"""

import contextlib
import os
import sys

TERMINATION_LOG = "/dev/termination-log"


def leave_message(line: str, path: str = TERMINATION_LOG) -> None:
    try:
        # Do not create the termination log: outside Kubernetes this file does not exist, and nobody would read it. Text
        # that is invalid in the locale's encoding contains surrogates, which UTF-8 cannot encode.
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


def unexpected(error: Exception) -> str:
    """Log an error for which no code is written, with its traceback. Return a cause that names the error."""
    sys.excepthook(type(error), error, error.__traceback__)
    return f"unexpected {type(error).__name__}: {error}; this pod's log says why"


def print_line(line: str) -> None:
    """Print a line on stderr.

    The function is safe in a signal handler, where print() fails if the signal interrupted another print().

    Ignore the error if no program reads stderr any more.
    """
    with contextlib.suppress(OSError):
        os.write(2, line.encode("utf-8", "backslashreplace") + b"\n")
