"""`make bench-mutants`: mutation testing.

Change one thing in a source file, and run the tests that belong to the file. Count the changes that no test notices.

Each result is one line of results.jsonl. After an interruption, the same command tries only the missing mutants. A
result becomes invalid when the mutated function is edited. When the tests of a part have changed, the bench first tries
again the mutants of this part that survived. Meanwhile these mutants still count as survivors. To try only some
mutants, set for example MUTANTS_ARGS="--part checkpoint --minutes 3". A survivor may behave like the unchanged source.
equivalent.yaml lists such survivors, each with the reason. The bench prints all other survivors in the format of
equivalent.yaml. The bench writes the table in RESULTS.md once it has tried all mutants, or with --table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.paths import CACHE_DIR, REPOSITORY
from tests.mutants import choice, trial
from tests.mutants.mutants import Mutant, digest, drawn
from tests.mutants.parts import PARTS, Part, files_of

FOLDER = Path(__file__).parent
KEPT = CACHE_DIR / "bench-mutants"
KILLED, SURVIVED, NOT_EXECUTED = "killed", "survived", "executed by no test"
# The mutant has survived the tests, but the tests have been changed since then.
STALE = "survived the former tests"
EQUIVALENT, NOT_TRIED = "equivalent", "not tried"
SURVIVORS = (SURVIVED, NOT_EXECUTED, STALE)
HEADINGS = ("part", "mutants", "tried", "killed", "equivalent", "survived", "killed of those not equivalent")
RECORDING_LIMIT = 900.0


@dataclass(frozen=True)
class Tried:
    mutant: Mutant
    outcome: str


class Results:
    """The outcomes of all mutants, stored in a file that has one line per result."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._by_key = {(one["mutant"], one["changed"]): one for one in map(json.loads, lines)}

    def outcome(self, mutant: Mutant, tests: str) -> str:
        """Return a mutant's outcome. `tests` is a hash of the tests of the mutant's part."""
        found = self._by_key.get((mutant.key, digest(mutant.changed)))
        if found is None:
            return NOT_TRIED
        return found["outcome"] if found["outcome"] == KILLED or found["tests"] == tests else STALE

    def add(self, mutant: Mutant, tests: str, outcome: str, by: str = "") -> None:
        """Add a result. `by` is the test that failed, or "" if the mutant survived or the tests took too long."""
        one = {"mutant": mutant.key, "changed": digest(mutant.changed), "tests": tests, "outcome": outcome, "by": by}
        self._by_key[(one["mutant"], one["changed"])] = one
        with self._path.open("a") as file:
            file.write(json.dumps(one) + "\n")

    def forget_others(self, mutants: Iterable[Mutant]) -> None:
        """Rewrite the file with the latest result of each of these mutants, and nothing else."""
        keys = dict.fromkeys((mutant.key, digest(mutant.changed)) for mutant in mutants)
        lines = [json.dumps(self._by_key[key]) for key in keys if key in self._by_key]
        self._path.write_text("".join(f"{line}\n" for line in lines))


def main() -> int:
    arguments = parsed()
    os.nice(19)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # SIGTERM then raises KeyboardInterrupt, as Ctrl-C does, and the bench removes its copy of the tree.
    KEPT.mkdir(parents=True, exist_ok=True)
    trial.remove_left_copies(KEPT)
    parts = [part for part in PARTS if arguments.part in (None, part.name)]
    results, end = Results(FOLDER / "results.jsonl"), time.monotonic() + 60 * arguments.minutes
    if not arguments.table and not try_all(parts, results, end):
        print("stopped after --minutes; the same command continues")
        return 0
    return told(parts, results)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-mutants")
    parser.add_argument("--part", choices=[part.name for part in PARTS], help="only this part")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--table", action="store_true", help="try none, and write the table of those tried before")
    return parser.parse_args()


def try_all(parts: Sequence[Part], results: Results, end: float) -> bool:
    """Try the mutants of all parts. Return False if the time is up before all have been tried."""
    place = trial.Place(KEPT / f"copy-{os.getpid()}")
    try:
        return all(try_part(part, before, place, results, end) for before in (STALE, NOT_TRIED) for part in parts)
    finally:
        place.remove()


def try_part(part: Part, before: str, place: trial.Place, results: Results, end: float) -> bool:
    """Try those mutants of a part whose outcome so far is `before`.

    Return False if the time is up before all have been tried.
    """
    tests = tests_hash(part)
    missing = [one.mutant for one in outcomes(part, results) if one.outcome == before]
    if not missing:
        return True
    recorded: choice.Recorded = {}
    for module in files_of(part.tests):
        if time.monotonic() > end:
            return False
        recorded |= recording(part, module, place)
    kills: Counter[str] = Counter()
    for number, mutant in enumerate(missing, 1):
        if time.monotonic() > end:
            return False
        outcome, by = outcome_of(mutant, part, recorded, kills, place)
        kills[by] += 1
        results.add(mutant, tests, outcome, by)
        print(f"{part.name}: {number} of {len(missing)}: {described(Tried(mutant, outcome))}", flush=True)
    return True


def tests_hash(part: Part) -> str:
    contents = [(REPOSITORY / path).read_text("utf-8") for path in files_of(part.tests)]
    return digest(*contents, *([] if part.is_traced else [str(choice.SECONDS_UNTRACED)]))


def recording(part: Part, module: Path, place: trial.Place) -> choice.Recorded:
    """Return the duration and the executed lines of each test in a test module.

    If the cache does not contain them, run the module.
    """
    sources = [*files_of(part.sources)]
    contents = [(place.root / path).read_text("utf-8") for path in (*sources, module)]
    kept = KEPT / "recorded" / f"{digest(str(module), part.name, *contents)}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        print(f"{part.name}: recording {module} ...", flush=True)
        code = place.record(module, sources if part.is_traced else [], kept, RECORDING_LIMIT)
        if not kept.exists():
            sys.exit(f"{module} ended with code {code}")
        if code != trial.PASSED:
            kept.unlink()
            sys.exit(f"{module} fails without any change: {place.first_failure()}; mend it first")
    return {name: (seconds, lines) for name, (seconds, lines) in json.loads(kept.read_text()).items()}


def outcome_of(
    mutant: Mutant, part: Part, recorded: choice.Recorded, kills: Counter[str], place: trial.Place
) -> tuple[str, str]:
    """Try a mutant. Return the mutant's outcome and the test that failed.

    `kills` counts for each test how many mutants it was the first to notice. The tests with the most kills per second
    of duration run first.
    """
    source = (REPOSITORY / mutant.path).read_text("utf-8")
    chosen = choice.tests_of(mutant, source, recorded, is_traced=part.is_traced)
    if not chosen:
        return NOT_EXECUTED, ""
    chosen.sort(key=lambda name: -kills[name] / (recorded[name][0] + 0.1))
    code = place.try_mutant(mutant, {name: recorded[name][0] for name in chosen})
    if code == trial.PASSED:
        return SURVIVED, ""
    return KILLED, place.first_failure()


def told(parts: Sequence[Part], results: Results) -> int:
    """Print the survivors and the table. Return 1 if there is a survivor that equivalent.yaml does not list."""
    found = {part.name: outcomes(part, results) for part in parts}
    survivors = [one for each in found.values() for one in each if one.outcome in SURVIVORS]
    for one in survivors:
        print(described(one))
    lines = table(found)
    print("\n".join(lines))
    if len(parts) == len(PARTS):
        results.forget_others(one.mutant for each in found.values() for one in each)
        write(lines)
    return int(bool(survivors))


def outcomes(part: Part, results: Results) -> list[Tried]:
    tests, listed = tests_hash(part), equivalent()
    found = []
    for mutant in drawn(part):
        is_listed = (mutant.path, mutant.function, mutant.before, mutant.after) in listed
        outcome = EQUIVALENT if is_listed else results.outcome(mutant, tests)
        found.append(Tried(mutant, outcome))
    return found


def equivalent() -> set[tuple[str, str, str, str]]:
    """Return (path, function, old line, new line) of each mutant in equivalent.yaml."""
    listed = yaml.safe_load((FOLDER / "equivalent.yaml").read_text("utf-8")) or []
    return {(one["file"], one["in"], one["line"], one["becomes"]) for one in listed}


def described(tried: Tried) -> str:
    mutant = tried.mutant
    place = f"{tried.outcome}: {mutant.path}:{mutant.line}"
    entry = {"file": mutant.path, "in": mutant.function, "line": mutant.before, "becomes": mutant.after, "reason": ""}
    return place if tried.outcome == KILLED else f"{place}\n{yaml.safe_dump([entry], sort_keys=False, width=1000)}"


def table(found: dict[str, list[Tried]]) -> list[str]:
    rows = [row(name, each) for name, each in found.items()]
    rows.append(row("all", [one for each in found.values() for one in each]))
    return [f"| {' | '.join(line)} |" for line in (HEADINGS, ("---",) * len(HEADINGS), *rows)]


def row(name: str, found: Sequence[Tried]) -> tuple[str, ...]:
    count = Counter(one.outcome for one in found)
    killed, same, survived = count[KILLED], count[EQUIVALENT], sum(count[outcome] for outcome in SURVIVORS)
    percent = f"{100 * killed / (killed + survived):.1f} %" if killed + survived else ""
    return (name, *map(str, (len(found), killed + same + survived, killed, same, survived)), percent)


def write(lines: Sequence[str]) -> None:
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
    heading = [
        "# Mutants",
        "",
        f"Results of `make bench-mutants` at commit {commit}. The mutants are drawn at random with a fixed seed:",
        "",
    ]
    below = [
        "",
        "A mutant counts as tried if it has a result for the current sources. A survivor stays a survivor until",
        "changed tests kill it.",
    ]
    (FOLDER / "RESULTS.md").write_text("\n".join([*heading, *lines, *below]) + "\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
