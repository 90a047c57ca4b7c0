"""Runs inside the image: start a training several times, and in each start send a signal to one of its ranks.

    python3 interrupted.py SIGTERM@9,SIGUSR1@20,end COMMAND...

Each entry of the first argument is for one start of the training. A signal such as SIGTERM@9 is sent when the log shows
step 9 or a later step. Consecutive signals go to different ranks. `SIGTERM@9:server 0` sends the signal to this
process, and `SIGTERM@9:all` to every process, as when a job is deleted. The entry `end` sends no signal, but waits
until the run ends. This program prints the output of all starts, and exits with the exit code of the last start.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path


def main() -> None:
    plan, *command = sys.argv[1:]
    code = 0
    for number, each in enumerate(plan.split(",")):
        name, _, rest = each.partition("@")
        step, _, target = rest.partition(":")
        code = run(command, None if name == "end" else signal.Signals[name], int(step or 0), target or number)
    sys.exit(code)


def run(command: list[str], which: signal.Signals | None, step: int, target: str | int) -> int:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        found = re.match(r"(\d+)\timages/sec", line)
        if which is not None and found and int(found[1]) >= step:
            for pid in pids_of(target):
                os.kill(pid, which)
            which = None
    return process.wait()


def pids_of(target: str | int) -> list[int]:
    """Return the process ids of a target: of all processes of the training, of one task, or of the rank after a number.

    Tasks are named as in the operator's environment variables, such as "server 0".
    """
    found = processes()
    if target == "all":
        return [*found.values()]
    if isinstance(target, str):
        return [found[target]]
    ranks = [found[name] for name in sorted(found) if not name.startswith(("server", "scheduler"))]
    return [ranks[(target + 1) % len(ranks)]]


def processes() -> dict[str, int]:
    """Return the process ids of the training by the names of the processes."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = name_of((folder / "environ").read_bytes())
            if name and (folder / "cmdline").read_bytes().startswith(b"python3\0-m\0"):
                found[name] = int(folder.name)
        except OSError:  # The process has ended in the meantime, or belongs to another user.
            continue
    return found


def name_of(environment: bytes) -> str:
    """Return the rank or task that is named in the environment of a process, or ""."""
    variables = dict(each.partition("=")[::2] for each in environment.decode().split("\0"))
    told = json.loads(variables.get("TF_CONFIG") or variables.get("MX_CONFIG") or "{}").get("task")
    if told:
        return f"{told['type']} {told['index']}"
    return variables.get("OMPI_COMM_WORLD_RANK") or variables.get("RANK") or ""


if __name__ == "__main__":
    main()
