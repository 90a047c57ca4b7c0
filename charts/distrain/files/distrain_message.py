"""Leave a line where Kubernetes takes a container's termination message from.

Imported by scripts that run in anyone's image: hence Python 3.6 and the standard library alone.
"""

TERMINATION_LOG = "/dev/termination-log"


def leave_message(line: str, path: str = TERMINATION_LOG) -> None:
    try:
        # Not created: outside Kubernetes it is missing and nobody looks for it.
        with open(path, "r+", encoding="utf-8") as log:
            log.write(line)
            log.truncate()
    except OSError:
        pass
