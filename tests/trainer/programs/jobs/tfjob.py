"""Runs inside the image: run a command as every process of a TFJob on loopback, with TF_CONFIG set.

The program prints the output of the chief. On stderr, the lines of the other processes follow, each after the name of
its process. If the chief prints nothing on stderr, the lines of the others are printed without names. As under the
operator, the job ends when the chief ends, and the exit code is that of the chief. If the chief fails, this program
ends all processes that still run, as the operator does with cleanPodPolicy Running. With `--without-operator`, the
other processes must end by themselves. If a process does not end, its name is printed on stderr. With `--forked`, this
process imports TensorFlow, and all other processes are its forks (forked.py).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from typing import IO, Any

SECONDS_TO_END = 60
DOES_NOT_END = 99
OPTIONS = ("--without-operator", "--forked")


class Process:
    begin: Any = subprocess.Popen

    def __init__(self, name: str, command: list[str], told: dict[str, object]) -> None:
        self.name = name
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed when this process ends
        out = None if name == "chief 0" else self._said
        environment = {**os.environ, "TF_CONFIG": json.dumps(told)}
        # A parameter server does not see the user's modules: the chart mounts a user's volumes only for the chief and
        # the workers.
        if name.startswith("ps"):
            environment.pop("PYTHONPATH", None)
        self.process = self.begin(command, env=environment, stdout=out, stderr=self._said)

    def ends(self) -> bool:
        try:
            self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        return True

    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")


def main(workers: int, servers: int, command: list[str], *, operator: bool) -> int:
    chief, *others = start(workers, servers, command)
    code = chief.process.wait()
    if code != 0 and operator:
        for other in others:
            other.process.terminate()
    late = [other.name for other in others if not other.ends()]
    print(all_lines(chief, others), file=sys.stderr, end="")
    codes = {other.name: other.process.returncode for other in others}
    alike = all(codes.values()) if code else not any(codes.values())
    if late or not alike:
        print(f"the chief ended with {code}, the others with {codes}; ended by force: {late}", file=sys.stderr)
        return DOES_NOT_END
    return code


def all_lines(chief: Process, others: list[Process]) -> str:
    if not chief.said():
        return "".join(other.said() for other in others)
    named = [f"{other.name}: {line}" for other in others for line in other.said().splitlines(keepends=True)]
    return "".join([chief.said(), *named])


def start(workers: int, servers: int, command: list[str]) -> list[Process]:
    chief, _, *others = addresses(2 + servers + workers)
    cluster = {"chief": [chief], "ps": others[:servers], "worker": others[servers:]}
    return [
        Process(f"{task} {index}", command, {"cluster": cluster, "task": {"type": task, "index": index}})
        for task, places in cluster.items()
        for index in range(len(places))
    ]


def addresses(count: int) -> list[str]:
    """Return `count` addresses with free ports that follow each other.

    Linux uses ports from 32768 on for outgoing connections, so no connection takes these lower ports before the test
    uses them.
    """
    while True:
        first = random.randrange(20_000, 32_768 - count)
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return [f"127.0.0.1:{port}" for port in range(first, first + count)]


options = set(sys.argv[1:3]) & set(OPTIONS)
workers, servers, *command = sys.argv[1 + len(options) :]
if "--forked" in options:
    forked = importlib.import_module("forked")
    forked.prepare("tensorflow")
    Process.begin = forked.Forked
sys.exit(main(int(workers), int(servers), command, operator="--without-operator" not in options))
