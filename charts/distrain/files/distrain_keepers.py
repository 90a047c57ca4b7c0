"""Keep on a few workers what the next launcher has to know of this one: how the run has ended, how often it has failed.

Imported by distrain-launch, which runs in anyone's image: hence Python 3.6 and the standard library alone. A launcher
of the chart's next or last version reads what this one has written: names and forms of the files stay as they are.
"""

import json
import shlex
from typing import Any

from distrain_program import Ended, Restarts
from distrain_workers import LaunchError, read_hostfile, who_fails

OUTCOME = '"${TMPDIR:-/tmp}/distrain-outcome"'
RESTARTS = '"${TMPDIR:-/tmp}/distrain-restarts"'
KEEPERS = 8


def keep_outcome(way: Any, hostfile: str, ended: Ended) -> None:
    """Leave the end: the operator starts another launcher, as for one that was only lost."""
    keep(way, hostfile, OUTCOME, f"{ended.code} {ended.cause[:2000]}")


def earlier_end(way: Any, hostfile: str) -> Any:
    """Return how an earlier launcher of this run has ended it, or nothing."""
    for text in read_kept(way, hostfile, OUTCOME):
        code, _, cause = text.partition(" ")
        # What was cut, or written by another, tells nothing.
        if code.isdecimal():
            return Ended(int(code), cause, True)
    return None


def keep_restarts(way: Any, hostfile: str, restarts: Restarts) -> None:
    keep(way, hostfile, RESTARTS, restarts.as_text())


def earlier_restarts(way: Any, hostfile: str) -> str:
    """Return what an earlier launcher of this run has counted, or nothing."""
    # One of the keepers may have been away when the last failure was told, or have been told a part.
    return max(read_kept(way, hostfile, RESTARTS), key=count_in, default="")


def count_in(text: str) -> int:
    """Return how many failures a kept text tells; none when it was cut, or written by another."""
    try:
        times, first, last = json.loads(text)
        return len([float(when) for when in times]) if isinstance(first, str) and isinstance(last, str) else 0
    except (ValueError, TypeError):
        return 0


def keep(way: Any, hostfile: str, file: str, text: str) -> None:
    line = shlex.quote(text)
    ask_keepers(hostfile, lambda host: way.why_not_run(host, f"printf %s {line} >{file}"), way)


def read_kept(way: Any, hostfile: str, file: str) -> list:
    answers = ask_keepers(hostfile, lambda host: way.output(host, f"cat {file} 2>/dev/null || true"), way)
    return [text for _, text in answers]


def ask_keepers(hostfile: str, what: Any, way: Any) -> list:
    try:
        return who_fails(list(read_hostfile(hostfile))[:KEEPERS], what, way.tries_at_once)
    except LaunchError:
        # Whoever waits for the workers says so.
        return []
