"""Show runs, once or at each change, for the commands `status` and `install --follow`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distrain import console
from distrain.answers.formats import dumped
from distrain.errors import GoneError, LateError, StoppedError, ValuesError
from distrain.redact import redact
from distrain.request.run_record import Found

if TYPE_CHECKING:
    from distrain.apiserver.cluster import Cluster
    from distrain.status.run import Observed, Run

FAILED = 4
NOT_LOOKED_FOR = Found()
# Colours of the phases, in ECMA-48's numbers: bold, and red, green, yellow or blue.
STYLES = {"Failed": "1;31", "Succeeded": "1;32", "Running": "1;32", "Rescaling": "1;34", "Starting": "1;34"}
OTHER_STYLE = "1;33"


class Asked(NamedTuple):
    """Which runs are shown, and how: the run `name`, or those of a namespace or of all.

    With `watches` each change is shown. With a `goal` the run is followed until it reaches the goal or fails, for at
    most `timeout` seconds. `record` is the record of the run `name`. `find_record` looks for it once the pods of the
    run are gone.
    """

    name: str | None
    namespace: str
    selector: str | None = None
    watches: bool = False
    goal: str = ""
    timeout: float = math.inf
    form: str = "text"
    record: Found = NOT_LOOKED_FOR
    find_record: Callable[[], Found] | None = None


def show(cluster: Cluster, asked: Asked) -> int:
    """Show the runs, and return the exit code: that a run alone has failed, or that Ctrl-C has ended the watch."""
    view = View(cluster, asked)
    try:
        return view.follow() if asked.watches or asked.goal else view.once()
    except KeyboardInterrupt:
        # Nothing is ever changed, and Ctrl-C is the usual end of a watch.
        return StoppedError.exit_code


class View:
    """The runs that are asked for, and how they are printed."""

    def __init__(self, cluster: Cluster, asked: Asked) -> None:
        from distrain.status.sources import selector_of

        self._asked, self._cluster = asked, cluster
        self._selector = selector_of(asked.name, asked.selector)
        self._record, self._find_record = asked.record, asked.find_record

    def once(self) -> int:
        from distrain.status.read import read_runs
        from distrain.status.sources import Lists

        runs = self._runs(read_runs(self._cluster, Lists(self._cluster, self._asked.namespace, self._selector)))
        self._print(runs)
        return _code(runs) if self._asked.name else 0

    def follow(self) -> int:
        """Show each change; return when the goal is reached, or when a run that is alone has ended.

        Raises LateError if the goal is not reached within --timeout.
        """
        last: Any = None
        runs: list[Run] = []
        for runs in self._changes():
            if (shown := [_gist(each) for each in runs]) != last or self._is_screen:
                self._tell(runs)
                last = shown
            if self._asked.name and self._is_over(runs[0]):
                if self._asked.goal:
                    self._print(runs)
                return _code(runs)
        raise LateError(self._too_late(runs))

    def _too_late(self, runs: list[Run]) -> str:
        from distrain.status.text import line

        seen = line(runs[0]) if runs else "the API server does not answer"
        return f"--timeout: {self._asked.goal} not reached in {self._asked.timeout:g} s: {seen}; give it more time"

    def _changes(self) -> Iterator[list[Run]]:
        from distrain.status.follow import followed
        from distrain.status.sources import Watches

        was_there = False
        for seen in followed(
            self._cluster, Watches(self._cluster, self._asked.namespace, self._selector), self._asked.timeout
        ):
            if was_there and self._asked.name and not seen:
                raise GoneError(f"{self._asked.name}: the run is gone: someone removed it")
            yield self._runs(seen)
            was_there = True

    def _runs(self, seen: Sequence[Observed]) -> list[Run]:
        """Return the status of each run; look for the record of the run `name` if no log tells its steps any more."""
        from distrain.status.read import absence
        from distrain.status.run import lacks_logs

        if self._asked.name and not seen:
            raise ValuesError(absence(self._cluster, self._asked.name))
        runs = self._statuses(seen)
        if self._asked.name and self._find_record and lacks_logs(seen[0], runs[0]):
            self._record, self._find_record = self._find_record(), None
            runs = self._statuses(seen)
        return runs

    def _statuses(self, seen: Sequence[Observed]) -> list[Run]:
        from msgspec.structs import replace

        from distrain.status.reasons import place_of
        from distrain.status.run import run_of

        target, now, (record, words) = self._cluster.target, time.time(), self._record
        runs = [run_of(each, place_of(target, each.release, each.namespace), now, record) for each in seen]
        return [replace(each, unread=(*each.unread, redact(words))) for each in runs] if words else runs

    def _is_over(self, found: Run) -> bool:
        from distrain.status.follow import has_reached

        if self._asked.goal:
            return found.has_failed or has_reached(found, self._asked.goal)
        return found.has_ended

    @property
    def _is_screen(self) -> bool:
        """Tell whether each look replaces the last one on a terminal."""
        return self._asked.watches and self._asked.form == "text" and console.width() is not None

    def _tell(self, runs: list[Run]) -> None:
        """Print a change: a line for a person who waits, otherwise the answer."""
        from distrain.status.text import line

        if self._asked.goal:
            console.say(line(runs[0]))
        elif self._asked.form == "text" and not self._is_screen:
            for each in runs:
                console.answer(console.printable(line(each)))
        else:
            self._print(runs, clears=True)

    def _print(self, runs: list[Run], *, clears: bool = False) -> None:
        from distrain.status.text import screen, table

        name, form, width = self._asked.name, self._asked.form, console.width()
        if form != "text":
            answer = runs[0].as_dict() if name else {"runs": [each.as_dict() for each in runs]}
            console.answer(dumped(answer, form))
        elif name:
            console.draw(screen(runs[0], width), _style(runs[0], width), clears=clears and width is not None)
        elif runs or self._is_screen:
            lines = table(runs, width, namespaces=not self._asked.namespace)
            console.draw(lines, clears=clears and width is not None)
        else:
            console.say(f"there is no run in {_where(self._asked.namespace)}")
        if form == "text" and not name:
            for words in dict.fromkeys(words for each in runs for words in each.unread):
                console.say(f"not read: {words}")


def _gist(found: Run) -> Any:
    """Return the facts of a run of which a change is worth another line. Ages are not: they always change."""
    return found.name, str(found.phase), found.why, found.workers, found.figures.step, found.figures.restarts


def _style(found: Run, width: int | None) -> str:
    """Return the style of the phase; none for a pipe, or if the user wants no colours (no-color.org)."""
    if width is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return ""
    return STYLES.get(found.phase.word.value, OTHER_STYLE)


def _code(runs: Sequence[Run]) -> int:
    return FAILED if any(each.has_failed for each in runs) else 0


def _where(namespace: str) -> str:
    return f"namespace {namespace}" if namespace else "any namespace"
