"""`make bench-guest`: interrupt `make demo` at 20 moments, and check that `make clean` leaves nothing on the machine.

The first demo runs to its end, so that the bench knows how long a demo takes. The demos are interrupted by SIGTERM,
SIGHUP, SIGKILL and a full disk, one after the other. The bench sends a signal to every process of the demo's session,
as a closing terminal does. On a full disk, a running job waits for space. Therefore the bench sends SIGTERM if the demo
still runs PATIENCE seconds later. The disk stays full until `make clean` has ended. The results are cached by commit.
If the program is interrupted, start it with the same command: it runs only the missing demos.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.cluster import teardown
from lab.paths import CACHE_DIR, REPOSITORY
from tests.bench_tests import commit
from tests.cluster.lab import machine

MOMENTS = 20
FULL_DISK = "full disk"
PATIENCE = 120
ENDINGS = ("SIGTERM", "SIGHUP", "SIGKILL", FULL_DISK)
# This script runs a command with a temporary overlay on /var/lib, where the lab keeps its state. The overlay file
# system holds 4 GB.
SMALL_DISK = """
set -e
mount -t tmpfs -o size=4g tmpfs /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/mnt/upper,workdir=/mnt/work overlay /var/lib
exec "$@"
"""
FILLER = Path("/var/lib/filler")


@dataclass(frozen=True)
class Trial:
    """A demo's duration in seconds, what interrupted it, and what `make clean` left on the machine."""

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
        trials.append(_trial(folder / str(number), second, ENDINGS[number % len(ENDINGS)]))
    return int(any(trial.left for trial in trials) or trials[0].ending != "exit code 0")


def _trial(place: Path, second: float | None = None, ending: str = "") -> Trial:
    """Return a demo's result from the cache, or run the demo. Print its table row."""
    kept = place.with_suffix(".json")
    if not kept.exists():
        kept.write_text(_result(place.with_suffix(".log"), second, ending))
    trial = Trial(**json.loads(kept.read_text()))
    print(f"| {trial.seconds:.0f} | {trial.ending} | {'; '.join(trial.left) or 'nothing'} |", flush=True)
    return trial


def _result(log: Path, second: float | None, ending: str) -> str:
    """Run a demo with this interruption, and return its Trial as JSON."""
    if ending != FULL_DISK:
        return json.dumps(asdict(_run(log, second, lambda demo: _signal(demo, signal.Signals[ending]))))
    trial = [sys.executable, "-m", "tests.cluster.lab.bench_guest", str(log), str(second)]
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SMALL_DISK, "sh", *trial]
    return subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout


def _run(log: Path, second: float | None, end: Callable[[subprocess.Popen[bytes]], str]) -> Trial:
    """Run a demo, interrupt it with `end` after `second` seconds, and then run `make clean`.

    `end` interrupts the demo and returns a description of the interruption.
    """
    teardown.down()
    before, started, ending = machine.state(), time.monotonic(), ""
    with log.open("w") as output:
        demo = subprocess.Popen(["make", "demo"], cwd=REPOSITORY, stdout=output, stderr=output, start_new_session=True)
        try:
            demo.wait(second)
        except subprocess.TimeoutExpired:
            ending = end(demo)
            demo.wait()
        seconds = time.monotonic() - started
        clean = subprocess.run(["make", "clean"], cwd=REPOSITORY, stdout=output, stderr=output, check=False)
    FILLER.unlink(missing_ok=True)
    code = f"exit code {demo.returncode}" if demo.returncode >= 0 else signal.Signals(-demo.returncode).name
    after = machine.state()
    changed = [*(f"gone: {line}" for line in sorted(before - after)), *sorted(after - before)]
    left = [*changed, *(["`make clean` failed"] if clean.returncode else [])]
    return Trial(seconds, ", ".join(filter(None, (ending, code))), left)


def _signal(demo: subprocess.Popen[bytes], number: signal.Signals) -> str:
    """Send a signal to each process of the demo's session. Return the signal's name."""
    for process in _of_session(demo.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
    return number.name


def _fill_disk(demo: subprocess.Popen[bytes]) -> str:
    subprocess.run(["dd", "if=/dev/zero", f"of={FILLER}", "bs=1M"], stderr=subprocess.DEVNULL, check=False)
    try:
        demo.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{FULL_DISK}, {_signal(demo, signal.SIGTERM)}"
    return FULL_DISK


def _of_session(session: int) -> list[int]:
    """Return the ids of a terminal session's processes. When a terminal closes, all these processes receive SIGHUP."""
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
    if sys.argv[1:]:
        print(json.dumps(asdict(_run(Path(sys.argv[1]), float(sys.argv[2]), _fill_disk))))
        sys.exit()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
