"""Run inside the image: starts a scheduler, servers and workers as an MXJob does, and ends them as its operator does.

    python3 mxjob.py WORKERS SERVERS AFTER_FAILURE COMMAND...

AFTER_FAILURE is "end", as the operator of a job that is not restarted ends what is left once one process failed, or
"wait" for them to end by themselves. The workers' output is passed on, and the others' with their names before each
line. Exits with the code of the first process that failed; with 99 when one had not ended half a minute after it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

SECONDS_TO_END = 30


def main() -> None:
    workers, servers, after_failure, *command = sys.argv[1:]
    tasks = [("scheduler", 0)]
    tasks += [("server", index) for index in range(int(servers))] + [("worker", index) for index in range(int(workers))]
    port = free_ports()
    processes = {}
    for role, index in tasks:
        environment = {
            "MX_CONFIG": json.dumps({"task": {"type": role, "index": index}}),
            "DMLC_ROLE": role,
            "DMLC_PS_ROOT_URI": "localhost",
            "DMLC_PS_ROOT_PORT": str(port),
            "DMLC_NUM_SERVER": servers,
            "DMLC_NUM_WORKER": workers,
            "DMLC_USE_KUBERNETES": "1",
        }
        name = "" if role == "worker" else f"{role} {index}: "
        processes[role, index] = start(command, environment, name)
    sys.exit(end_of(list(processes.values()), after_failure))


def free_ports() -> int:
    """Return a port that is free like the one above it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("", 0))
            try:
                second.bind(("", first.getsockname()[1] + 1))
            except OSError:
                continue
            return int(first.getsockname()[1])


def start(command: list[str], environment: dict[str, str], name: str) -> subprocess.Popen[bytes]:
    if name:
        # sed ends with the process, and each line comes whole.
        command = ["/bin/bash", "-c", 'exec "$@" > >(sed -u "s/^/$0/") 2> >(sed -u "s/^/$0/" >&2)', name, *command]
    return subprocess.Popen(command, env={**os.environ, **environment})


def end_of(processes: list[subprocess.Popen[bytes]], after_failure: str) -> int:
    code = first_failure(processes)
    if code and after_failure == "end":
        for process in processes:
            process.kill()
    deadline = time.monotonic() + SECONDS_TO_END
    for process in processes:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = 99
    return code


def first_failure(processes: list[subprocess.Popen[bytes]]) -> int:
    """Return the exit code of the first process that fails, or 0 once all have ended."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            # Others may have ended with 1 on its account since the last look.
            return max(failed, default=0)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
