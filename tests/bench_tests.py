"""`make bench-tests`: repeat `make test` until three runs in a row have passed, both on an idle and on a busy machine.

Each run adds a line to tests/bench_tests.jsonl and to the table in docs/lab.md. If the program is interrupted, the same
command continues: it keeps the results of finished runs. The program prints the tests that failed, and stops after a
run with a failed test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.paths import CACHE_DIR, REPOSITORY
from lab.written_part import with_part

RUNS = 3
LOADS = ("idle", "busy")
RESULTS = REPOSITORY / "tests" / "bench_tests.jsonl"
LOGS = CACHE_DIR / "bench-tests"
# This program keeps one core busy until its parent process ends.
LOAD = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
PAGE = REPOSITORY / "docs" / "lab.md"
BEGIN = "<!-- made by make bench-tests -->\n"
FAILURE = re.compile(r"^(?:FAILED|ERROR) .*|^what the failed tests left is in .*", re.MULTILINE)
SUMMARY = re.compile(r"^=+ (.* in [\d.]+s.*?) =+$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """One run of `make test`: pytest's summary, and the lines that name failures."""

    commit: str
    load: str
    seconds: int
    summary: str
    failures: list[str]


def main() -> int:
    results = read()
    while load := next_load(results):
        print(f"`make test`, {load} ...", flush=True)
        results.append(run(load))
        RESULTS.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in results), encoding="utf-8")
        write(PAGE, table(results))
        print("\n".join([row(results[-1]), *results[-1].failures]), flush=True)
        if results[-1].failures:
            return 1
    return 0


def read() -> list[Result]:
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    return [Result(**json.loads(line)) for line in lines]


def next_load(results: Sequence[Result]) -> str:
    """Return the load (`idle` or `busy`) under which `make test` must be repeated next.

    Return "" if the last RUNS runs of each load have passed.
    """
    passed = {load: passed_last(results, load) for load in LOADS}
    load = min(LOADS, key=lambda each: passed[each])
    return load if passed[load] < RUNS else ""


def passed_last(results: Sequence[Result], load: str) -> int:
    """Count the runs under this load since its last failed run."""
    runs = [result for result in reversed(results) if result.load == load]
    return next((number for number, result in enumerate(runs) if result.failures), len(runs))


def commit() -> str:
    """Return the short hash of HEAD, with `+` if a file other than RESULTS and PAGE differs from HEAD."""
    changed = git(
        "status", "--porcelain", "--", ".", *(f":!{path.relative_to(REPOSITORY)}" for path in (RESULTS, PAGE))
    )
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep each core busy with one process while the block runs."""
    loads = [subprocess.Popen([sys.executable, "-c", LOAD]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in loads:
            process.kill()
            process.wait()


def run(load: str) -> Result:
    at, started = commit(), time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{at}-{load}-{time.strftime('%Y%m%d-%H%M%S')}.log"
    print(f"output: {log}", flush=True)
    with busy_cores() if load == "busy" else nullcontext(), log.open("w") as file:
        code = subprocess.run(["make", "test"], cwd=REPOSITORY, stdout=file, stderr=file, check=False).returncode
    output = log.read_text(errors="replace")
    failures = FAILURE.findall(output)
    if code and not failures:
        failures = [f"`make test` ended with exit code {code}; see {log}"]
    summaries = SUMMARY.findall(output)
    return Result(at, load, round(time.monotonic() - started), summaries[-1] if summaries else "no summary", failures)


def table(results: Sequence[Result]) -> list[str]:
    """Return a Markdown table with one row for each of the last RUNS runs of each load."""
    kept = [each for load in LOADS for each in [found for found in results if found.load == load][-RUNS:]]
    return ["| commit | machine | pytest's summary | `make test` |", "|---|---|---|---|", *map(row, kept)]


def row(result: Result) -> str:
    return f"| {result.commit} | {result.load} | {result.summary} | {result.seconds} s |"


def write(page: Path, lines: Sequence[str]) -> None:
    """Replace the table in docs/lab.md, which follows the comment BEGIN."""
    part = "".join(f"{line}\n" for line in lines)
    page.write_text(with_part(page.read_text(encoding="utf-8"), BEGIN, part), encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
