"""Show runs, once or at each change, for the commands `status` and `install --follow`."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from distrain import console
from distrain.answers.formats import dumped
from distrain.errors import LateError, StoppedError, ValuesError
from distrain.redact import redact
from distrain.request.run_record import Found

if TYPE_CHECKING:
    from distrain.apiserver.cluster import Cluster
    from distrain.record.read import Record
    from distrain.status.run import Observed, Run

FAILED = 4
NOT_LOOKED_FOR = Found()
# With --wait, at least STEP_SECONDS pass between two lines that report only a new step. The log of a CI job keeps every
# line, so few lines should be printed.
STEP_SECONDS = 60.0
AGE = re.compile(r"\b\d+ (?:s|min|h|d)\b")
# Colours of the phases as ECMA-48 codes: bold, with red, green, yellow or blue.
STYLES = {"Failed": "1;31", "Succeeded": "1;32", "Running": "1;32", "Rescaling": "1;34", "Starting": "1;34"}
OTHER_STYLE = "1;33"


class Asked(NamedTuple):
    """Says which runs are shown and how: the run `name`, or all runs of one namespace or of all namespaces.

    With `watches` each change is shown. With a `goal`, the run is followed until it reaches the goal or fails, but for
    at most `timeout` seconds. `record` is the record of the run `name`. `find_record` looks for the record once the
    pods of the run are gone.
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
    """Show the runs. The exit code tells whether the run `name` has failed, or whether Ctrl-C has ended the watch."""
    view = View(cluster, asked)
    try:
        return view.follow() if asked.watches or asked.goal else view.once()
    except KeyboardInterrupt:
        # A watch changes nothing, and users end it with Ctrl-C.
        return StoppedError.exit_code


class View:
    """The runs that are asked for, and how they are printed."""

    def __init__(self, cluster: Cluster, asked: Asked) -> None:
        from distrain.status.absence import Absence
        from distrain.status.follow import Silence
        from distrain.status.sources import Selection

        self._asked, self._cluster = asked, cluster
        self._selection = Selection(asked.name, asked.selector)
        self._record, self._find_record = asked.record, asked.find_record
        self._absence, self._silence = Absence(cluster, asked.name or "", console.say), Silence(console.say)
        # What the view printed last: the gist of each run, and each run's step. `_told_at` is the time of that output.
        self._last: Any = None
        self._steps: list[int | None] = []
        self._told_at = -math.inf
        self._unread: set[str] = set()

    def once(self) -> int:
        from distrain.status.read import read_runs
        from distrain.status.sources import Lists

        runs = self._runs(read_runs(self._cluster, Lists(self._cluster, self._asked.namespace, self._selection)))
        self._print(runs)
        return _code(runs) if self._asked.name else 0

    def follow(self) -> int:
        """Show each change, until the run `name` has reached the goal or has ended.

        Raises LateError if the goal is not reached within --timeout.
        """
        runs: list[Run] = []
        for runs in self._changes():
            if self._is_screen or self._is_news(runs):
                self._tell(runs)
            if self._asked.name and self._is_over(runs[0]):
                if self._asked.goal:
                    self._print(runs)
                return _code(runs)
        raise LateError(self._too_late(runs))

    def _is_news(self, runs: list[Run]) -> bool:
        """Tell whether something has changed since the last line was printed.

        With --wait, if only the number of the training step has changed, a line is printed at most once a minute.
        """
        gists, steps = [_gist(each) for each in runs], [each.figures.step for each in runs]
        now = time.monotonic()
        is_soon = bool(self._asked.goal) and now - self._told_at < STEP_SECONDS
        is_news = gists != self._last or (steps != self._steps and not is_soon)
        if is_news:
            self._last, self._steps, self._told_at = gists, steps, now
        return is_news

    def _too_late(self, runs: list[Run]) -> str:
        from distrain.status.text import line

        last, then = line(runs[0]) if runs else "", "give a longer --timeout"
        if self._absence.lasts:
            last = f"{self._asked.name}: its job is gone, and no other job has replaced it yet"
        seen = last
        if error := self._silence.error:
            why, _, then = error.messages[0].partition("; ")
            seen = f"{why}{f'; last state before that: {last}' if last else ''}"
        return f"--timeout: the run has not reached {self._asked.goal} in {self._asked.timeout:g} s: {seen}; {then}"

    def _changes(self) -> Iterator[list[Run]]:
        from distrain.status.absence import is_being_replaced
        from distrain.status.follow import followed
        from distrain.status.sources import Unread, Watches

        name, was_there, deadline = self._asked.name, False, time.monotonic() + self._asked.timeout
        # If the first request of a watch fails, nothing repeats it later. So this request gets all retries.
        self._cluster.hurry(deadline, asks_again=False)
        with closing(Watches(self._cluster, self._asked.namespace, self._selection)) as source:
            self._cluster.hurry(deadline)
            for seen in followed(self._cluster, source, self._silence, deadline):
                if name and not seen and (was_there or is_being_replaced(self._cluster, name)):
                    self._absence.go_on(source.pods(Unread()))
                else:
                    self._absence.end()
                    yield self._runs(seen)
                was_there = True

    def _runs(self, seen: Sequence[Observed]) -> list[Run]:
        """Return the status of each run.

        If no pod's log shows the steps of the run `name` any more, read its record.
        """
        from distrain.status.absence import absence, missing_namespace

        is_empty = not seen and not self._asked.name and self._asked.namespace
        if is_empty and (words := missing_namespace(self._cluster)):
            raise ValuesError(words)
        if self._asked.name and not seen:
            raise ValuesError(absence(self._cluster, self._asked.name, self._any_record))
        if self._asked.name and self._asked.record.record:
            self._refuse_another(self._asked.record.record, seen[0])
        runs = self._statuses(seen)
        if self._asked.name and self._find_record and runs[0].lacks_log:
            self._record, self._find_record = self._find_record(), None
            runs = self._statuses(seen)
        return runs

    def _refuse_another(self, record: Record, seen: Observed) -> None:
        """Raise ValuesError if --record names the record of another run."""
        from distrain.status.read import job_of
        from distrain.status.recorded import other_job

        own = job_of(seen.objects)
        if job := other_job(record, own):
            words = f"belongs to job {job}, but the job of {self._asked.name} is {own}"
            raise ValuesError(f"--record: {words}; name the record of {self._asked.name}, or leave out --record")

    def _any_record(self) -> Record | None:
        """Return the record of the run `name`: the record that --record names, otherwise the record of the release."""
        found = self._record if self._record.record or not self._find_record else self._find_record()
        if found.words:
            console.say(f"not read: {redact(found.words)}")
        return found.record

    def _statuses(self, seen: Sequence[Observed]) -> list[Run]:
        from msgspec.structs import replace

        from distrain.status.causes.reasons import place_of
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
        """Tell whether the runs are shown as a screen: each new state replaces the previous state on the terminal."""
        return self._asked.watches and self._asked.form == "text" and console.width() is not None

    def _tell(self, runs: list[Run]) -> None:
        """Print a change: one line if a person waits for the run, otherwise the whole answer."""
        from distrain.status.text import line

        if self._asked.form == "text" and not self._is_screen:
            self._tell_unread(runs)
        if self._asked.goal:
            console.say(line(runs[0]))
        elif self._asked.form == "text" and not self._is_screen:
            for each in runs:
                console.answer(console.printable(line(each)))
        else:
            self._print(runs, clears=True)

    def _tell_unread(self, runs: list[Run]) -> None:
        """Print which objects the user may not read, each only once.

        The lines about the runs have no room for such messages.
        """
        new = [words for each in runs for words in each.unread if words not in self._unread]
        for words in dict.fromkeys(new):
            console.say(f"not read: {words}")
        self._unread.update(new)

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
    """Return facts about a run. If one of them changes, a new line about the run is printed.

    Steps and ages are left out, because they always change.
    """
    why = AGE.sub("", found.why)
    return found.name, str(found.phase), why, found.workers, found.figures.restarts


def _style(found: Run, width: int | None) -> str:
    """Return the style in which the phase is printed.

    The style is empty for a pipe, and if the user wants no colours (no-color.org).
    """
    if width is None or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return ""
    return STYLES.get(found.phase.word.value, OTHER_STYLE)


def _code(runs: Sequence[Run]) -> int:
    return FAILED if any(each.has_failed for each in runs) else 0


def _where(namespace: str) -> str:
    return f"namespace {namespace}" if namespace else "any namespace"
