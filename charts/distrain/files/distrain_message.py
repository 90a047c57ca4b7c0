"""Write a container's termination message.

The importing scripts run in any image: hence Python 3.6 and only the standard library.
"""

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
