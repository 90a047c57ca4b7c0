"""Leave a line where Kubernetes takes a container's termination message from.

Imported by scripts that run in anyone's image: hence Python 3.6 and the standard library alone.
"""

TERMINATION_LOG = "/dev/termination-log"


def leave_message(line: str, path: str = TERMINATION_LOG) -> None:
    try:
        # Not created: outside Kubernetes it is missing and nobody looks for it.
        # A name that is not valid in the locale's encoding reaches Python as surrogates, which UTF-8 cannot encode.
        with open(path, "r+", encoding="utf-8", errors="backslashreplace") as log:
            log.write(line)
            log.truncate()
    except OSError:
        pass
