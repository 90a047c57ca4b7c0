"""`make bench-chaos`: kill processes of trainings at random times, and compare with uninterrupted trainings.

The bench kills processes of all programs. In every other run, the data and the checkpoints are on an S3 server that
injects faults all the time.

The results are cached under the hash of the code, so a second call continues where the first call was stopped. The
bench prints tables. The bench exits with 1 if the weights or the state of a run differ from those of the uninterrupted
run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.datasets.digits import write_digits
from lab.paths import CACHE_DIR, CHART, REPOSITORY
from lab.s3.server import Server, on_loopback
from tests.trainer.chaos import CASES, IN_FOLDERS, Case, Kill, Outcome, Place, in_faulty_s3, random_plan, train
from tests.trainer.conftest import SCRIPTS
from tests.trainer.fixtures.faults import FAULTS

TESTS = Path(__file__).parents[1]
KILLS_PER_RUN = 5
# All runs of a case make the same number of steps. If a run finishes before all its planned kills have happened, only
# those that have happened are counted.
STEPS = 200
SECONDS_BETWEEN = 1.0
HEADINGS = (
    "case",
    "killed",
    "points",
    "identical",
    "worst lost, intervals",
    "restart / cold start, median",
    "worst, killed in training",
    "worst, killed in a start",
    "seconds to the next step, median",
    "worst",
)
# A table contains this in place of a figure if there was no kill of this kind.
NONE = [math.nan]
Line = Mapping[str, Any]


def main() -> int:
    """Run the trainings until there are enough kills, and print the tables.

    Return 1 if the result of any training differs from the uninterrupted one.
    """
    parser = argparse.ArgumentParser(prog="make bench-chaos")
    parser.add_argument("--points", type=int, default=1000, help="kill points in all")
    points = parser.parse_args().points
    results = CACHE_DIR / "chaos" / f"{code_hash()}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    print(f"results: {results}", flush=True)
    with tempfile.TemporaryDirectory() as name, on_loopback(Path(name) / "s3") as server:
        Path(name).chmod(0o755)
        (digits := Path(name) / "digits").mkdir()
        write_digits(digits)
        for case in missing(results, points):
            line = one_run(case, read(results), digits, server)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(told(line), flush=True)
    lines = [line for line in read(results) if line["kills"]]
    print("\n".join([*table(lines), "", *seconds_by_program(lines), "", *seconds_by_fault(lines)]))
    return int(not all(line["identical"] for line in lines))


def code_hash() -> str:
    """Return the hash of all files that influence the results."""
    files = [*(REPOSITORY / "trainer").rglob("*"), *(CHART / "files").iterdir()]
    files += [TESTS / "chaos.py", TESTS / "fixtures" / "faults.py"]
    files += [SCRIPTS / "jobs" / name for name in ("killed.py", "mxjob.py", "tfjob.py")]
    parts = [path.read_bytes() for path in sorted(files) if path.is_file() and "__pycache__" not in path.parts]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def read(results: Path) -> list[Line]:
    return [json.loads(line) for line in results.read_text("utf-8").splitlines()] if results.exists() else []


def missing(results: Path, points: int) -> Iterator[Case]:
    """Yield the case with the fewest kills so far, again and again, until all cases together have `points` kills."""
    while True:
        lines = read(results)
        made = {case: sum(len(line["kills"]) for line in lines if line["case"] == str(case)) for case in CASES}
        case = min(CASES, key=lambda each: made[each])
        if sum(made.values()) >= points:
            return
        yield case


def one_run(case: Case, lines: list[Line], digits: Path, server: Server) -> Line:
    """Train once.

    The first run of a case is uninterrupted. All later runs have kills, and every other run uses an S3 server with
    faults.
    """
    expected = next((line["weights"] for line in lines if line["case"] == str(case) and not line["plan"]), None)
    plan = random_plan(case, KILLS_PER_RUN, random.Random()) if expected else []
    made = sum(line["case"] == str(case) for line in lines)
    fault = random.choice([*FAULTS]) if made % 2 else ""
    with tempfile.TemporaryDirectory() as name, place_of(fault, server, digits) as place:
        folder = Path(name) / "out"
        Path(name).chmod(0o755)
        outcome = train(case, plan, steps=STEPS, every=SECONDS_BETWEEN, folder=folder, digits=digits, place=place)
    if outcome.run.returncode:
        sys.exit(
            f"{case}, {plan}, {fault}: exit code {outcome.run.returncode}\n{outcome.run.stdout}\n{outcome.run.stderr}"
        )
    return line_of(case, plan, outcome, expected, fault)


def place_of(fault: str, server: Server, digits: Path) -> AbstractContextManager[Place]:
    return in_faulty_s3(server, digits, FAULTS[fault]) if fault else nullcontext(IN_FOLDERS)


def line_of(case: Case, plan: list[tuple[str, int, float]], outcome: Outcome, expected: str | None, fault: str) -> Line:
    state = json.dumps(outcome.state, sort_keys=True).encode()
    weights = hashlib.sha256(outcome.weights + state).hexdigest()
    return {
        "case": str(case),
        "plan": plan,
        "fault": fault,
        "weights": weights,
        "identical": expected in (None, weights),
        "cold_start": outcome.cold_start,
        "kills": [asdict(kill) for kill in outcome.kills],
    }


def told(line: Line) -> str:
    if not line["plan"]:
        return f"{line['case']}: unbroken"
    verdict = "the same weights and state" if line["identical"] else f"OTHER WEIGHTS OR STATE after {line['plan']}"
    through = f", S3 through {line['fault']}" if line["fault"] else ""
    return f"{line['case']}: killed {', '.join(kill['victim'] for kill in line['kills'])}{through}: {verdict}"


def table(lines: list[Line]) -> list[str]:
    """Return a table with one row for each case and each kind of killed process."""
    found: dict[tuple[str, str], list[tuple[Line, Kill]]] = {}
    for line in lines:
        for kill in (Kill(**each) for each in line["kills"]):
            found.setdefault((line["case"], kill.victim.split()[0]), []).append((line, kill))
    rows = [(case, victim, *figures(points)) for (case, victim), points in sorted(found.items())]
    return [f"| {' | '.join(row)} |" for row in (HEADINGS, ("---",) * len(HEADINGS), *rows)]


def seconds_by_program(lines: list[Line]) -> list[str]:
    """Return a table of the seconds from a kill to the next step, by program and kind of killed process.

    Runs with S3 faults are left out.
    """
    working = [line for line in lines if not line["fault"]]
    found = seconds_by(working, lambda line, kill: (kill.victim.split()[0], line["case"].partition(",")[0]))
    programs = sorted({program for _, program in found})
    rows = [("killed", *programs), ("---",) * (1 + len(programs))]
    for victim in sorted({victim for victim, _ in found}):
        rows.append((victim, *(median_and_worst(found.get((victim, program), [])) for program in programs)))
    return [f"| {' | '.join(row)} |" for row in rows]


def seconds_by_fault(lines: list[Line]) -> list[str]:
    """Return a table of the seconds from a kill to the next step, with one row for each fault of S3.

    It covers all programs.
    """
    found = seconds_by(lines, lambda line, _: (line["fault"] or "none",))
    rows: list[tuple[str, ...]] = [("fault of S3", "points", "seconds"), ("---",) * 3]
    rows += [(*key, str(len(found[key])), median_and_worst(found[key])) for key in sorted(found)]
    return [f"| {' | '.join(row)} |" for row in rows]


def seconds_by(lines: list[Line], key: Callable[[Line, Kill], tuple[str, ...]]) -> dict[tuple[str, ...], list[float]]:
    """Group the seconds from each kill to the next step. `key` returns the group of a kill.

    Kills after which no step followed are left out.
    """
    found: dict[tuple[str, ...], list[float]] = {}
    for line in lines:
        for kill in (Kill(**each) for each in line["kills"]):
            if kill.seconds_to_step is not None:
                found.setdefault(key(line, kill), []).append(kill.seconds_to_step)
    return found


def median_and_worst(found: list[float]) -> str:
    return f"{statistics.median(found):.1f}, {max(found):.1f}" if found else ""


def figures(points: list[tuple[Line, Kill]]) -> tuple[str, ...]:
    lost = [seconds_lost(kill) / SECONDS_BETWEEN for _, kill in points]
    in_training, in_start = ratios(points, in_training=True), ratios(points, in_training=False)
    identical = sum(line["identical"] for line, _ in points)
    median = statistics.median(in_training + in_start or NONE)
    seconds = [kill.seconds_to_step for _, kill in points if kill.seconds_to_step is not None] or NONE
    numbers = (max(lost), median, max(in_training or NONE), max(in_start or NONE))
    shown = [f"{number:.2f}" for number in numbers] + [f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}"]
    return (str(len(points)), str(identical), *(number.replace("nan", "") for number in shown))


def ratios(points: list[tuple[Line, Kill]], *, in_training: bool) -> list[float]:
    """For each kill, return the time from the kill to the next step as a multiple of the first start's duration."""
    chosen = [(line, kill.seconds_to_step) for line, kill in points if (kill.lines > 0) == in_training]
    return [seconds / line["cold_start"] for line, seconds in chosen if seconds is not None]


def seconds_lost(kill: Kill) -> float:
    """Return the duration of the steps that the run had to repeat, or 0 if the next kill came before the next step."""
    if kill.seconds_to_step is None:
        return 0.0
    return max(0, kill.last_step - (kill.resumed_step or 0)) * kill.step_seconds


if __name__ == "__main__":
    sys.exit(main())
