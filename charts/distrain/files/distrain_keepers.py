"""Keep on a few workers what the next launcher has to know of this one: how the run has ended, how often it has failed.

Imported by distrain-launch, which runs in anyone's image: hence Python 3.6 and the standard library alone. A launcher
of the chart's next or last version reads what this one has written: names and forms of the files stay as they are.
"""

import json
import shlex

from distrain_program import Ended, Restarts
from distrain_workers import LaunchError, read_hostfile, who_fails

OUTCOME = '"${TMPDIR:-/tmp}/distrain-outcome"'
RESTARTS = '"${TMPDIR:-/tmp}/distrain-restarts"'
KEEPERS = 8


def keep_outcome(way: object, hostfile: str, ended: Ended) -> None:
    """Leave the end: the operator starts another launcher, as for one that was only lost."""
    keep(way, hostfile, OUTCOME, f"{ended.code} {ended.cause[:2000]}")


def earlier_end(way: object, hostfile: str) -> object:
    """Return how an earlier launcher of this run has ended it, or nothing."""
    kept = read_kept(way, hostfile, OUTCOME)
    if not kept:
        return None
    code, _, cause = kept[0].partition(" ")
    return Ended(int(code), cause, True)


def keep_restarts(way: object, hostfile: str, restarts: Restarts) -> None:
    keep(way, hostfile, RESTARTS, restarts.as_text())


def earlier_restarts(way: object, hostfile: str) -> str:
    """Return what an earlier launcher of this run has counted, or nothing."""
    # One of the keepers may have been away when the last failure was told, or have been told a part.
    return max(read_kept(way, hostfile, RESTARTS), key=count_in, default="")


def count_in(text: str) -> int:
    try:
        return len(json.loads(text)[0])
    except ValueError:
        return 0


def keep(way: object, hostfile: str, file: str, text: str) -> None:
    line = shlex.quote(text)
    ask_keepers(hostfile, lambda host: way.why_not_run(host, f"printf %s {line} >{file}"), way)


def read_kept(way: object, hostfile: str, file: str) -> list:
    answers = ask_keepers(hostfile, lambda host: way.output(host, f"cat {file} 2>/dev/null || true"), way)
    return [text for _, text in answers]


def ask_keepers(hostfile: str, what: object, way: object) -> list:
    try:
        return who_fails(list(read_hostfile(hostfile))[:KEEPERS], what, way.tries_at_once)
    except LaunchError:
        # Whoever waits for the workers says so.
        return []
