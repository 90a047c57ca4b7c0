"""`make bench-scale`: measure runs of up to 1,000 workers, and 100 runs at once, on the running lab.

KWOK simulates the nodes and the pods. The API server, the scheduler, the controllers and the operators are real. Each
result is one line of results.jsonl. After an interruption, the same command measures only the missing cases. Remove the
file to measure all cases again. The bench writes the tables of docs/scale.md.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.bench.scale import table
from lab.bench.scale.measure import KINDS, SMALL, Case, figures
from lab.builds.installed import installed
from lab.cluster import kwok, lifecycle
from lab.errors import LabError

RESULTS = Path(__file__).with_name("results.jsonl")
SIZES, RUNS = (10, 100, 1000), (10, 100)
CASES = [
    *(Case(kind, size) for size in SIZES for kind in KINDS),
    *(Case("MPIJob", SMALL, runs) for runs in RUNS),
]
# This is one node more than the largest run needs.
NODES = max(SIZES) + 1


def main() -> int:
    # A shell makes its background jobs ignore SIGINT. The bench undoes this, because the commands that it starts must
    # react to SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lines = read()
    done = {Case(*line["case"]) for line in lines}
    if missing := [case for case in CASES if case not in done]:
        if not lifecycle.is_ready():
            sys.exit("bench-scale: the lab is not running; start it with `make cluster`")
        with TemporaryDirectory(prefix="bench-") as folder, kwok.nodes(NODES, log()):
            plugin = installed(Path(folder)) / "bin" / "distrain"
            for case in missing:
                print(f"{case} ...", flush=True)
                lines.append({"case": case, **machine(), **figures(plugin, case)})
                RESULTS.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    table.write(read())
    return 0


def read() -> list[table.Line]:
    """Return the results in the order of CASES."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    return sorted(map(json.loads, lines), key=lambda line: CASES.index(Case(*line["case"])))


def machine() -> dict[str, object]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "gigabytes": round(memory / 2**30)}


def log() -> str:
    """Return the log that every simulated pod shows. It has the trainer's format."""
    told = {"step": 100, "steps": 1000, "world_size": max(SIZES) * kwok.GPUS, "unix_seconds": time.time()}
    return f"distrain-progress: {json.dumps(told)}\n" * 500


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"bench-scale: {error}")
    except KeyboardInterrupt:
        sys.exit("bench-scale: stopped; the same command continues")
