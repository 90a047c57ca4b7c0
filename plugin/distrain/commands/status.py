"""Run the command `status`: say how a run, or each run, is doing."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distrain import console
from distrain.commands.formats import dumped
from distrain.commands.request import Request, import_msgspec
from distrain.errors import GoneError, LateError, StoppedError, ValuesError

if TYPE_CHECKING:
    from distrain.apiserver.cluster import Cluster
    from distrain.record.read import Record
    from distrain.status.run import Observed, Run

FAILED = 4
DEFAULT_GOAL = "Succeeded"
# Colours of the phases, in ECMA-48's numbers: bold, and red, green, yellow or blue.
STYLES = {"Failed": "1;31", "Succeeded": "1;32", "Running": "1;32", "Rescaling": "1;34", "Starting": "1;34"}
OTHER_STYLE = "1;33"


def run(options: argparse.Namespace) -> int:
    _refuse_contradictions(options)
    import_msgspec()
    view = View(options, Request(options).cluster)
    try:
        return view.follow() if options.watch or options.wait or options.wait_for else view.once()
    except KeyboardInterrupt:
        # Nothing is ever changed, and Ctrl-C is the usual end of --watch.
        return StoppedError.exit_code


class View:
    """What the arguments select, and how it is printed."""

    def __init__(self, options: argparse.Namespace, cluster: Cluster) -> None:
        from distrain.status.sources import selector_of

        self._options, self._cluster = options, cluster
        self._namespace = "" if options.all_namespaces else cluster.target.namespace
        self._selector = selector_of(options.name, options.selector)
        self._record = _record(options.record)
        self._goal = options.wait_for or (DEFAULT_GOAL if options.wait else "")

    def once(self) -> int:
        from distrain.status.read import read_runs
        from distrain.status.sources import Lists

        runs = self._runs(read_runs(self._cluster, Lists(self._cluster, self._namespace, self._selector)))
        self._print(runs)
        return _code(runs) if self._options.name else 0

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
            if self._options.name and self._is_over(runs[0]):
                if self._goal:
                    self._print(runs)
                return _code(runs)
        raise LateError(self._too_late(runs))

    def _too_late(self, runs: list[Run]) -> str:
        from distrain.status.text import line

        seen = line(runs[0]) if runs else "the API server does not answer"
        return f"--timeout: {self._goal} not reached in {self._options.timeout:g} s: {seen}; give it more time"

    def _changes(self) -> Iterator[list[Run]]:
        from distrain.status.follow import followed
        from distrain.status.sources import Watches

        was_there = False
        timeout = math.inf if self._options.timeout is None else self._options.timeout
        for seen in followed(self._cluster, Watches(self._cluster, self._namespace, self._selector), timeout):
            if was_there and self._options.name and not seen:
                raise GoneError(f"{self._options.name}: the run is gone: someone removed it")
            yield self._runs(seen)
            was_there = True

    def _runs(self, seen: Sequence[Observed]) -> list[Run]:
        from distrain.status.read import absence
        from distrain.status.reasons import place_of
        from distrain.status.run import run_of

        if self._options.name and not seen:
            raise ValuesError(absence(self._cluster, self._options.name))
        target, now = self._cluster.target, time.time()
        record = self._record
        return [run_of(each, place_of(target, each.release, each.namespace), now, record) for each in seen]

    def _is_over(self, found: Run) -> bool:
        from distrain.status.follow import has_reached

        if self._goal:
            return found.has_failed or has_reached(found, self._goal)
        return found.has_ended

    @property
    def _is_screen(self) -> bool:
        """Tell whether each look replaces the last one on a terminal."""
        return self._options.watch and self._options.output == "text" and console.width() is not None

    def _tell(self, runs: list[Run]) -> None:
        """Print a change: a line for a person who waits, otherwise the answer."""
        from distrain.status.text import line

        if self._goal:
            console.say(line(runs[0]))
        elif self._options.output == "text" and not self._is_screen:
            for each in runs:
                console.answer(console.printable(line(each)))
        else:
            self._print(runs, clears=True)

    def _print(self, runs: list[Run], *, clears: bool = False) -> None:
        from distrain.status.text import screen, table

        name, form, width = self._options.name, self._options.output, console.width()
        if form != "text":
            answer = runs[0].as_dict() if name else {"runs": [each.as_dict() for each in runs]}
            console.answer(dumped(answer, form))
        elif name:
            console.draw(screen(runs[0], width), _style(runs[0], width), clears=clears and width is not None)
        elif runs or self._is_screen:
            lines = table(runs, width, namespaces=self._options.all_namespaces)
            console.draw(lines, clears=clears and width is not None)
        else:
            console.say(f"there is no run in {_where(self._namespace)}")
        if form == "text" and not name:
            for words in dict.fromkeys(words for each in runs for words in each.unread):
                console.say(f"not read: {words}")


def _record(folder: str | None) -> Record | None:
    """Read the run's record from its folder, None without one."""
    from pathlib import Path

    from distrain.record.read import RecordError, in_folder

    try:
        return in_folder(Path(folder)) if folder else None
    except RecordError as error:
        raise ValuesError(f"--record: {error}") from None


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


def _refuse_contradictions(options: argparse.Namespace) -> None:
    for flag, value in (("--all-namespaces", options.all_namespaces), ("--selector", options.selector)):
        if options.name and value:
            raise ValuesError(f'{flag}: is for all runs, and "{options.name}" names one; leave out one of them')
    if options.record and not options.name:
        raise ValuesError("--record: belongs to one run; name it, as in `helm distrain status run1 --record FOLDER`")
    if not options.name and (options.wait or options.wait_for):
        raise ValuesError("--wait: waits for one run; name it, as in `helm distrain status run1 --wait`")
    if options.timeout is not None and not (options.wait or options.wait_for):
        raise ValuesError("--timeout: limits --wait, which is missing; add --wait, or leave it out")
    if options.watch and (options.wait or options.wait_for):
        raise ValuesError("--watch: goes on without a goal, and --wait ends at one; leave out one of them")
