"""Test that all processes of a job end when one of them ends, except if it has said goodbye before."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import distrain_trainer
from lab.waiting import free_port

SCHEDULER = "from distrain_trainer.loop import abort; import sys, time; line = abort.listen(int(sys.argv[1])); "
OTHER = (
    "from distrain_trainer.loop import abort; import sys, time; line = abort.connect('localhost', int(sys.argv[1]), "
)


@pytest.fixture
def port() -> str:
    return str(free_port())


def start(code: str, port: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(distrain_trainer.__file__).parents[1])}
    command = [sys.executable, "-c", code, port]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_process_that_is_killed_ends_the_scheduler_and_all_others(port: str) -> None:
    scheduler = start(SCHEDULER + "time.sleep(60)", port)
    joined = "; print('joined', file=sys.stderr, flush=True); time.sleep(60)"
    server, worker = (start(f"{OTHER}{name!r}){joined}", port) for name in ("server 0", "worker 1"))
    for process in (server, worker):
        assert process.stderr is not None
        assert process.stderr.readline() == "joined\n"

    worker.kill()

    _, said = scheduler.communicate(timeout=300)
    assert (scheduler.returncode, server.wait(60)) == (1, 1)
    assert said == "distrain: worker 1 has ended before the training, and so all others do; its log says why\n"


def test_end_of_the_first_process_is_told_where_that_is_asked_for(port: str) -> None:
    chief = start(SCHEDULER + "time.sleep(60)", port)
    worker = start(
        OTHER + "'worker 0', first='the chief', tells=True); print(file=sys.stderr, flush=True); time.sleep(60)", port
    )
    assert worker.stderr is not None
    worker.stderr.readline()

    chief.kill()

    _, said = worker.communicate(timeout=300)
    assert said == "distrain: the chief has ended before the training, and so all others do; its log says why\n"
    assert worker.returncode == 1


def test_process_that_says_goodbye_ends_nobody(port: str) -> None:
    ends = "\nwhile len(line.connections) < 2: time.sleep(0.1)\ntime.sleep(1)\nline.leave()"
    scheduler = start(SCHEDULER + ends, port)
    server = start(OTHER + "'server 0'); time.sleep(4); line.leave()", port)
    worker = start(OTHER + "'worker 1'); line.leave()", port)

    codes = [process.wait(60) for process in (scheduler, server, worker)]

    assert codes == [0, 0, 0]


def test_stranger_ends_nobody(port: str) -> None:
    scheduler = start(SCHEDULER + "print('holds', file=sys.stderr, flush=True); sys.stdin.read(); line.leave()", port)
    assert scheduler.stderr is not None
    assert scheduler.stdin is not None
    scheduler.stderr.readline()

    socket.create_connection(("localhost", int(port))).close()

    time.sleep(1)  # If it ended because of the stranger, it would do so by now.
    scheduler.stdin.close()
    assert scheduler.wait(60) == 0
