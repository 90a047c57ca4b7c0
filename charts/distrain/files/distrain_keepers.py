"""Store the run's outcome, its failures and its launcher's state on a few workers, for the launcher's next pod.

distrain-launch runs in any image, so this module uses only Python 3.6 and its standard library. A launcher of the
chart's next or previous version may read the files, so their names and formats must not change.
"""

import json
import shlex
from typing import Any

from distrain_program import Ended, Restarts
from distrain_workers import LaunchError, read_hostfile, who_fails

OUTCOME = '"${TMPDIR:-/tmp}/distrain-outcome"'
RESTARTS = '"${TMPDIR:-/tmp}/distrain-restarts"'
STATE = '"${TMPDIR:-/tmp}/distrain-launcher"'
# AT_WORK: the launcher has started mpirun. AT_REST: SIGTERM has stopped mpirun, or mpirun has failed and its failure is
# stored. So if an earlier launcher has left AT_WORK, its pod was lost without SIGTERM, and nobody has counted this.
AT_WORK, AT_REST = "at work", "at rest"
KEEPERS = 8


def keep_outcome(way: Any, hostfile: str, ended: Ended) -> None:
    """Store how the run has ended.

    If the launcher's pod is lost, the operator starts another launcher, which reads this outcome.
    """
    keep(way, hostfile, {OUTCOME: f"{ended.code} {ended.cause[:2000]}"})


def earlier_end(way: Any, hostfile: str) -> Any:
    """Return how an earlier launcher has ended this run, or None."""
    for text in read_kept(way, hostfile, OUTCOME):
        code, _, cause = text.partition(" ")
        # Ignore a file that is incomplete, or that another program wrote.
        if code.isdecimal():
            return Ended(int(code), cause, True)
    return None


def keep_restarts(way: Any, hostfile: str, restarts: Restarts) -> None:
    keep(way, hostfile, {RESTARTS: restarts.as_text(), STATE: AT_REST})


def keep_state(way: Any, hostfile: str, state: str) -> None:
    keep(way, hostfile, {STATE: state})


def earlier_state(way: Any, hostfile: str) -> str:
    """Return the state in which an earlier launcher has left this run, or an empty text if none has started mpirun.

    A worker that could not be reached for a while may have kept AT_REST or AT_WORK for too long. So prefer AT_REST:
    a failure that is not counted does less harm than a run that ends although no failure has happened.
    """
    kept = read_kept(way, hostfile, STATE)
    return next((state for state in (AT_REST, AT_WORK) if state in kept), "")


def earlier_restarts(way: Any, hostfile: str) -> str:
    """Return the failures that an earlier launcher of this run has stored, or an empty text."""
    # The pods may have stored different lists of failures, because some workers did not receive the last failure. So
    # use the longest list.
    return max(read_kept(way, hostfile, RESTARTS), key=count_in, default="")


def count_in(text: str) -> int:
    """Count the failures in a stored text. Return 0 if the text is incomplete, or if another program wrote the text."""
    try:
        times, first, last = json.loads(text)
        return len([float(when) for when in times]) if isinstance(first, str) and isinstance(last, str) else 0
    except (ValueError, TypeError):
        return 0


def keep(way: Any, hostfile: str, texts: dict) -> None:
    """Write each text to its file, on a few workers. If a worker's disk is full, its files keep their texts."""
    writes = (f"printf %s {shlex.quote(text)} >{file}.new && mv -f {file}.new {file}" for file, text in texts.items())
    command = " && ".join(writes)
    ask_keepers(hostfile, lambda host: way.why_not_run(host, command), way)


def read_kept(way: Any, hostfile: str, file: str) -> list:
    answers = ask_keepers(hostfile, lambda host: way.output(host, f"cat {file} 2>/dev/null || true"), way)
    return [text for _, text in answers]


def ask_keepers(hostfile: str, what: Any, way: Any) -> list:
    try:
        return who_fails(list(read_hostfile(hostfile))[:KEEPERS], what, way.tries_at_once)
    except LaunchError:
        # The function that calls this one reports the missing workers when it waits for them.
        return []
