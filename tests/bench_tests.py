"""`make bench-tests`: run `make test` six times, three times on an idle machine and three times beside a load.

Each run's result is kept in the cache under the commit and PYTEST_ARGS, so that the same command continues after an
interruption. Prints each failure. After six runs of all tests it writes the table in docs/lab.md.
"""

from __future__ import annotations

import hashlib
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

LOADS = ("idle", "idle", "idle", "busy", "busy", "busy")
# Keeps a core busy, and ends with the process that started it.
LOAD = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
PAGE = REPOSITORY / "docs" / "lab.md"
BEGIN, END = "<!-- made by make bench-tests -->\n", "<!-- end -->\n"
FAILURE = re.compile(r"^(?:FAILED|ERROR) .*|^what the failed tests left is in .*", re.MULTILINE)
SUMMARY = re.compile(r"^=+ (.* in [\d.]+s.*?) =+$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """One run of `make test`: pytest's summary, and the lines that name failures."""

    load: str
    seconds: int
    summary: str
    failures: list[str]


def main() -> int:
    folder = results_folder()
    print(f"results and output: {folder}", flush=True)
    results = [result_of(folder, number, load) for number, load in enumerate(LOADS, 1)]
    lines = table(results)
    print("\n".join(lines))
    if not os.environ.get("PYTEST_ARGS"):
        write(PAGE, lines)
    return int(any(result.failures for result in results))


def results_folder() -> Path:
    key = hashlib.sha256(f"{commit()} {os.environ.get('PYTEST_ARGS', '')}".encode()).hexdigest()[:16]
    folder = CACHE_DIR / "bench-tests" / key
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()


def result_of(folder: Path, number: int, load: str) -> Result:
    """Return the result of a run from the cache, or run the tests."""
    kept = folder / f"{number}.json"
    if not kept.exists():
        print(f"run {number} of {len(LOADS)}, {load} ...", flush=True)
        with busy_cores() if load == "busy" else nullcontext():
            result = run(load, folder / f"{number}.log")
        kept.write_text(json.dumps(asdict(result)))
    result = Result(**json.loads(kept.read_text()))
    print("\n".join([f"run {number}, {load}: {result.summary}", *result.failures]), flush=True)
    return result


@contextmanager
def busy_cores() -> Iterator[None]:
    """Run a process per core that takes all the time that it gets."""
    loads = [subprocess.Popen([sys.executable, "-c", LOAD]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in loads:
            process.kill()
            process.wait()


def run(load: str, log: Path) -> Result:
    started = time.monotonic()
    with log.open("w") as file:
        code = subprocess.run(["make", "test"], cwd=REPOSITORY, stdout=file, stderr=file, check=False).returncode
    output = log.read_text(errors="replace")
    failures = FAILURE.findall(output)
    if code and not failures:
        failures = [f"`make test` ended with exit code {code}; see {log}"]
    summaries = SUMMARY.findall(output)
    return Result(load, round(time.monotonic() - started), summaries[-1] if summaries else "no summary", failures)


def table(results: Sequence[Result]) -> list[str]:
    heading = f"Commit {commit()}, {os.cpu_count()} cores:"
    rows = [
        f"| {number} | {result.load} | {result.summary} | {result.seconds} s |"
        for number, result in enumerate(results, 1)
    ]
    return [heading, "", "| run | machine | pytest's summary | `make test` |", "|---|---|---|---|", *rows]


def write(page: Path, lines: Sequence[str]) -> None:
    """Replace what is between the two comments of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text("".join([before, BEGIN, *(f"{line}\n" for line in lines), END, after]), encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the same command continues")
