"""Change a release. A change by Helm is either finished or undone, even after Ctrl-C, SIGTERM or a failure."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from distrain.apiserver.cluster import Cluster
from distrain.apiserver.target import Target
from distrain.errors import (
    DistrainError,
    HelmError,
    NameInUseError,
    StartError,
    StoppedError,
    UnreachableError,
    ValuesError,
)
from distrain.helm.program import Source
from distrain.progress.wait import Followed, until_started

if TYPE_CHECKING:  # importing pyhelm3 takes a quarter of a second, and `check` changes nothing
    from distrain.helm.releases import Releases

# If one of these errors is raised, Helm failed, and the change is undone. With --atomic, the change is also undone if
# the job cannot start.
FAILURES = (HelmError, NameInUseError, ValuesError)
# Ctrl-C sends SIGINT; CI systems and `kill` send SIGTERM. Each of these signals is a request to undo the change.
STOPPING = (signal.SIGINT, signal.SIGTERM)
# The program receives SIGHUP when the terminal is closed. Closing the terminal is not a request to undo the change.
SIGNALS = (*STOPPING, signal.SIGHUP)


class Interrupts:
    """Records SIGINT and SIGTERM, so that they do not stop the program in the middle of a change.

    A signal that was ignored at the start remains ignored. The first signal raises KeyboardInterrupt once, either in
    `check` or inside of `allowed`. After `end` all signals are ignored, so that the exit code agrees with the final
    report.
    """

    def __init__(self) -> None:
        self.came = False
        self._is_allowed = False
        for number in STOPPING:
            # `nohup` starts its program with SIGHUP ignored, and a shell starts background programs with SIGINT
            # ignored. Such a signal stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)
        # Ignore SIGHUP, so that the change continues after the terminal is closed. Helm's process inherits this
        # setting.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has been received."""
        if self.came:
            raise KeyboardInterrupt

    def end(self) -> None:
        """From now on, ignore SIGINT, SIGTERM and SIGHUP; child processes inherit this."""
        # Python resets the handlers of signals when it exits, but an ignored signal stays ignored.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """In this block, raise KeyboardInterrupt as soon as a signal is received."""
        self._is_allowed = True
        try:
            self.check()
            yield
        finally:
            self._is_allowed = False

    def _note(self, *_: object) -> None:
        self.came = True
        if self._is_allowed:
            # A second signal must not interrupt the code that undoes the change.
            self._is_allowed = False
            raise KeyboardInterrupt


class Release(Struct, frozen=True):
    """The release to create or change: its name, its chart and values, and its namespace."""

    name: str
    source: Source
    target: Target


class Tools(Struct, frozen=True):
    """The tools for a change: Helm, the cluster, the recorded signals, and two functions that print.

    `is_atomic` means that the change is undone if the job cannot start.
    """

    helm: Releases
    cluster: Cluster
    interrupts: Interrupts
    say: Callable[[str], None]
    answer: Callable[[str], None]
    is_atomic: bool = False

    @property
    def undoing(self) -> tuple[type[BaseException], ...]:
        """Return the exceptions after which the change is undone."""
        return (KeyboardInterrupt, *FAILURES, *([StartError] if self.is_atomic else []))


@contextmanager
def all_or_nothing(
    tools: Tools, take_back: Callable[[], list[str]], stays: Callable[[Exception], str]
) -> Iterator[None]:
    """Run a change of a release, and undo it if it fails.

    If the user presses Ctrl-C, SIGTERM arrives, or an error in `tools.undoing` is raised, `take_back` undoes the
    change. The lines that `take_back` returns are added to the report.

    After any other error Helm's change may have succeeded, for example if the job cannot start, or if the API server
    stops answering meanwhile. The change is then not undone, and the text that `stays` returns is added to the report.
    """
    try:
        tools.interrupts.check()
        yield
        tools.interrupts.end()
        tools.interrupts.check()
    except tools.undoing as error:
        tools.interrupts.end()
        try:
            told = take_back()
        except Exception as bug:
            _add_note(bug, stays(bug))
            raise
        # If a signal has come, it has probably ended Helm's process too, and Helm's error is only a result of this.
        if isinstance(error, DistrainError) and not tools.interrupts.came:
            error.messages = (*error.messages, *(told or ["nothing was changed"]))
            raise
        raise StoppedError("interrupted" + ("" if told else "; nothing was changed"), *told) from error
    except DistrainError as error:
        error.messages = (*error.messages, stays(error))
        raise
    except Exception as error:
        _add_note(error, stays(error))
        raise


def _add_note(error: Exception, note: str) -> None:
    """Add a note to the end of an error of distrain, as `add_note` does in Python 3.11 and later."""
    error.__notes__ = [*getattr(error, "__notes__", ()), note]


def watched(release: Release) -> str:
    """Return how to watch the pods of a release that this program no longer follows."""
    pods = f"get pods --watch --selector app.kubernetes.io/instance={release.name}"
    return f"watch it with `kubectl {release.target.kubectl_flags} {pods}`"


def wait_for_server(cluster: Cluster) -> None:
    """Wait for the API server for up to a minute; raise UnreachableError if it does not answer."""
    with suppress(UnreachableError):  # after half a minute
        cluster.version()
        return
    cluster.version()


def carry_out(tools: Tools, change: Callable[[], str], failure: str, followed: Followed | None) -> None:
    """Let Helm make the change, and print its notes; with `followed`, wait until the job has started.

    If Helm fails, the message of the error begins with `failure`.
    """
    try:
        notes = change()
    except (HelmError, NameInUseError) as error:
        raise type(error)(f"{failure}: {error}") from error
    tools.interrupts.check()
    tools.answer(notes)
    if followed:
        with tools.interrupts.allowed():
            until_started(tools.cluster, followed, tools.say)
