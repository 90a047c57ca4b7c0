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
from typing import IO

SECONDS_TO_END = 30


def main() -> None:
    workers, servers, after_failure, *command = sys.argv[1:]
    tasks = [("scheduler", 0)]
    tasks += [("server", index) for index in range(int(servers))] + [("worker", index) for index in range(int(workers))]
    port = free_ports()
    processes, seds = list[subprocess.Popen[bytes]](), list[subprocess.Popen[bytes]]()
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
        its_seds = [] if role == "worker" else [sed(f"{role} {index}: ", output) for output in (sys.stdout, sys.stderr)]
        processes.append(start(command, environment, its_seds))
        seds += its_seds
    code = end_of(processes, after_failure)
    all_end(seds)  # They may still have lines to print.
    sys.exit(code)


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


def sed(name: str, output: IO[str]) -> subprocess.Popen[bytes]:
    """Start a sed that prints each line from its input after the name. It prints only complete lines."""
    return subprocess.Popen(["sed", "-u", f"s/^/{name}/"], stdin=subprocess.PIPE, stdout=output)


def start(
    command: list[str], environment: dict[str, str], seds: list[subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """Start a process. If `seds` are given, they print its output and its errors, and end when the process ends."""
    out, err = [each.stdin for each in seds] or (None, None)
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=err)
    for file in filter(None, (out, err)):
        file.close()
    return process


def end_of(processes: list[subprocess.Popen[bytes]], after_failure: str) -> int:
    code = first_failure(processes)
    if code and after_failure == "end":
        for process in processes:
            process.kill()
    return code if all_end(processes) else 99


def all_end(processes: list[subprocess.Popen[bytes]]) -> bool:
    """Wait until all processes have ended, but at most SECONDS_TO_END. Return whether they have ended."""
    deadline = time.monotonic() + SECONDS_TO_END
    try:
        for process in processes:
            process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


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
