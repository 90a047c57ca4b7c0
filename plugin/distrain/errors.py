"""What can go wrong, one class per cause, each with the exit code of the program.

A message says the value's path or the thing, what was found and the next step; `console.py` alone prints it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in cli.py
if TYPE_CHECKING:
    from collections.abc import Sequence


class DistrainError(Exception):
    """Something the user can mend: shown as a line per message, without a traceback."""

    exit_code = 1

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages: Sequence[str] = messages


class ValuesError(DistrainError):
    """Values or arguments are wrong."""

    exit_code = 2


class NameInUseError(DistrainError):
    """A release of this name is already there."""

    exit_code = 2


class RefusedError(DistrainError):
    """The release is not in a state to be changed so, or not ours to change."""

    exit_code = 2


class UnreachableError(DistrainError):
    """The cluster, or a part of it that is needed for an answer, cannot be read."""

    exit_code = 3


class ForbiddenError(UnreachableError):
    """The cluster answers, but the caller may not read this."""


class NotFoundError(UnreachableError):
    """The cluster has no such object."""


class CredentialsError(UnreachableError):
    """What says who we are cannot be sent."""

    exit_code = 2


class HelmError(DistrainError):
    """Helm is missing, too old, or failed."""

    exit_code = 4


class EndError(DistrainError):
    """The job that is to be replaced does not end."""

    exit_code = 4


class StartError(DistrainError):
    """The job was installed and could not start."""

    exit_code = 4


class DoesNotFitError(DistrainError):
    """The cluster has no room for the job, now or ever; the verdict says which."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UnwrittenError(DistrainError):
    """Stdout does not take the answer: the disk is full, say."""

    exit_code = 5


class PipeClosedError(UnwrittenError):
    """Whoever read stdout has gone, as `| head` does; the exit code is that of a program that SIGPIPE ends."""

    exit_code = 141


def unwritten(error: Exception) -> UnwrittenError:
    """Return the error of a stdout that failed with this one: without a word for a pipe that its reader has closed."""
    if isinstance(error, BrokenPipeError):
        return PipeClosedError()
    words = getattr(error, "strerror", None) or error
    return UnwrittenError(f"stdout: cannot be written: {words}; direct it to where there is room")


class StoppedError(DistrainError):
    """The user pressed Ctrl-C."""

    exit_code = 130
