"""Runs inside the image: start a scheduler, servers and workers as in an MXJob, and end them as the operator would.

    python3 mxjob.py WORKERS SERVERS AFTER_FAILURE COMMAND...

If AFTER_FAILURE is "end", the program ends all other processes after one has failed, as the operator does if the job is
not restarted. If it is "wait", the other processes must end by themselves. The program prints the output of the workers
unchanged. Each line of another process is printed after the name of this process. The exit code is that of the first
process that failed. The exit code is 99 if another process is still running half a minute later.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
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
    """Return a free port whose next port is free, too.

    Linux uses ports from 32768 on for outgoing connections, so no connection takes these lower ports before the test
    uses them.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("", port))
            second.bind(("", port + 1))
            return port


def start(command: list[str], environment: dict[str, str], name: str) -> subprocess.Popen[bytes]:
    if name:
        # The process and sed end together, and sed prints only complete lines.
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
    """Return the exit code of the first process that fails, or 0 if all processes succeed."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [code for code in codes if code]
        if failed or None not in codes:
            # Since the last check, this failure may have made other processes exit with 1. So return the largest exit
            # code.
            return max(failed, default=0)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
