"""Run inside the image: a training again and again, with a signal to one of its ranks each time.

    python3 interrupted.py SIGTERM@9,SIGKILL@20,end COMMAND...

A signal is sent once the log shows its step or a later one, to another rank each time; `end` waits for the end. What
the runs print is passed on. Exits with the last one's code.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

RANK = re.compile(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|RANK)=(\d+)\0")


def main() -> None:
    plan, *command = sys.argv[1:]
    code = 0
    for number, each in enumerate(plan.split(",")):
        name, _, step = each.partition("@")
        code = run(command, None if name == "end" else signal.Signals[name], int(step or 0), number)
    sys.exit(code)


def run(command: list[str], which: signal.Signals | None, step: int, number: int) -> int:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        found = re.match(r"(\d+)\timages/sec", line)
        if which is not None and found and int(found[1]) >= step:
            ranks = pids_of_ranks()
            os.kill(ranks[number % len(ranks)], which)
            which = None
    return process.wait()


def pids_of_ranks() -> list[int]:
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            rank = RANK.search((folder / "environ").read_bytes())
            if rank and b"python3\0" in (folder / "cmdline").read_bytes():
                found[int(rank[1])] = int(folder.name)
        except OSError:  # It has just ended, or is not ours.
            continue
    return [found[rank] for rank in sorted(found)]


if __name__ == "__main__":
    main()
