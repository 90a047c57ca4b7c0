"""Define one exception class per cause of failure, each with the program's exit code.

A message names the value's path or the object, then the finding, then the next step. Only `console.py` prints messages.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False  # importing typing is slow, see cli.py
if TYPE_CHECKING:
    from collections.abc import Sequence

# One error prints at most MOST_MESSAGES messages. For example, a file of the wrong type may have a mistake in every
# line, and a user would not read them all.
MOST_MESSAGES = 10
# YAML and JSON with more nested levels than this are refused, because Python's libraries read nested values
# recursively.
DEEPEST = 100


class DistrainError(Exception):
    """An error that the user can fix. Each message is printed as one line, without a traceback."""

    exit_code = 1

    def __init__(self, *messages: str) -> None:
        # Imported here, because --help raises no error.
        from distrain.redact import redact

        if (more := len(messages) - MOST_MESSAGES) > 0:
            messages = (*messages[: MOST_MESSAGES - 1], f"and {more + 1} more mistakes; correct these first")
        self.messages: Sequence[str] = tuple(map(redact, messages))
        super().__init__("\n".join(self.messages))


class ValuesError(DistrainError):
    """Values or arguments are wrong."""

    exit_code = 2


def no_namespace(name: str) -> ValuesError:
    return ValuesError(f'--namespace: there is no namespace "{name}"; create it, or add --create-namespace')


class NameInUseError(DistrainError):
    """A release of this name already exists."""

    exit_code = 2


class RefusedError(DistrainError):
    """The release's state does not allow this change, or another tool (Argo CD, Flux) manages the release."""

    exit_code = 2


class UnreachableError(DistrainError):
    """The cluster, or a resource that the command needs, cannot be read."""

    exit_code = 3


class ForbiddenError(UnreachableError):
    """The cluster answers, but RBAC does not let the user read this resource.

    `right` is the missing right, a verb and a resource, if the API server has named it.
    """

    def __init__(self, *messages: str, right: tuple[str, str] | None = None) -> None:
        super().__init__(*messages)
        self.right = right


class NotFoundError(UnreachableError):
    """The cluster has no such object."""


class NoLogError(UnreachableError):
    """The container has not started, so it has no log; or it was never restarted, so it has no previous log."""


class CredentialsError(UnreachableError):
    """The credentials cannot be sent to the API server."""

    exit_code = 2


class HelmError(DistrainError):
    """Helm is missing, too old, or failed."""

    exit_code = 4


class UnsettledError(DistrainError):
    """Helm has installed the release, but it is not known whether Helm has recorded it as deployed."""

    exit_code = 4


class EndError(DistrainError):
    """The old job, which the upgrade replaces, does not end."""

    exit_code = 4


class StartError(DistrainError):
    """The job was installed but could not start."""

    exit_code = 4


class LateError(StartError):
    """The job did not start within the timeout, and may still start."""


class GoneError(DistrainError):
    """Someone has removed the job before it started, for example by an upgrade that replaces it."""

    exit_code = 4


class RecreatedError(DistrainError):
    """Someone has uninstalled the release while Helm upgraded it, and the upgrade has created it again."""

    exit_code = 4


class DoesNotFitError(DistrainError):
    """The job does not fit. The exit code is that of the verdict: impossible, busy or depends."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UnwrittenError(DistrainError):
    """Writing to stdout or to a temporary file failed, for example because the disk is full."""

    exit_code = 5


class PipeClosedError(UnwrittenError):
    """The reader of stdout closed the pipe, as `| head` does. The exit code is 128 + SIGPIPE."""

    exit_code = 141


def reason(error: object) -> str:
    """Return an error's cause in one line: the operating system's message if the error has one."""
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text"
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def is_full(error: Exception) -> bool:
    """Tell whether an error means that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritten(error: Exception) -> UnwrittenError:
    """Convert an error from writing to stdout. For a closed pipe the result has no message."""
    if isinstance(error, BrokenPipeError):
        return PipeClosedError()
    return UnwrittenError(f"stdout: cannot be written: {reason(error)}; redirect it to a disk with free space")


class StoppedError(DistrainError):
    """The user pressed Ctrl-C."""

    exit_code = 130
