"""`make bench-guest`: end `make demo` at 20 moments, and compare the machine after `make clean` with the one before.

SIGTERM, SIGHUP and SIGKILL take turns; each goes to every process of the demo's terminal session. Before that, one demo
runs to its end. Results are kept in the cache under the commit, so that the same command continues after an
interruption.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.cluster import teardown
from lab.paths import CACHE_DIR, REPOSITORY
from tests.bench_tests import commit
from tests.cluster.lab import machine

MOMENTS = 20
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)


@dataclass(frozen=True)
class Trial:
    """A demo, how it ended, and what differs on the machine after `make clean`."""

    seconds: float
    ending: str
    left: list[str]


def main() -> int:
    folder = CACHE_DIR / "bench-guest" / commit()
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"results and output: {folder}\n\n| second | the demo's end | differs after `make clean` |\n|---|---|---|",
        flush=True,
    )
    trials = [_trial(folder / "whole")]
    for number in range(MOMENTS):
        second = trials[0].seconds * (number + 0.5) / MOMENTS
        trials.append(_trial(folder / str(number), second, SIGNALS[number % len(SIGNALS)]))
    return int(any(trial.left for trial in trials) or trials[0].ending != "exit code 0")


def _trial(place: Path, second: float | None = None, number: signal.Signals | None = None) -> Trial:
    """Return a trial from the cache, or run it; print its row."""
    kept = place.with_suffix(".json")
    if not kept.exists():
        kept.write_text(json.dumps(asdict(_run(place.with_suffix(".log"), second, number))))
    trial = Trial(**json.loads(kept.read_text()))
    print(f"| {trial.seconds:.0f} | {trial.ending} | {'; '.join(trial.left) or 'nothing'} |", flush=True)
    return trial


def _run(log: Path, second: float | None, number: signal.Signals | None) -> Trial:
    teardown.down()
    before, started = machine.state(), time.monotonic()
    with log.open("w") as output:
        demo = subprocess.Popen(["make", "demo"], cwd=REPOSITORY, stdout=output, stderr=output, start_new_session=True)
        try:
            demo.wait(second)
        except subprocess.TimeoutExpired:
            for process in _of_session(demo.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number or signal.SIGTERM)
            demo.wait()
        seconds = time.monotonic() - started
        clean = subprocess.run(["make", "clean"], cwd=REPOSITORY, stdout=output, stderr=output, check=False)
    ending = f"exit code {demo.returncode}" if demo.returncode >= 0 else signal.Signals(-demo.returncode).name
    after = machine.state()
    changed = [*(f"gone: {line}" for line in sorted(before - after)), *sorted(after - before)]
    return Trial(seconds, ending, [*changed, *(["`make clean` failed"] if clean.returncode else [])])


def _of_session(session: int) -> list[int]:
    """Return the processes of a terminal session; a terminal that closes signals these."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
