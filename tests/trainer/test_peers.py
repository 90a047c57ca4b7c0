"""Of processes that watch each other, the first one that is gone is named, and not who ends on account of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import distrain_trainer
from distrain_trainer.errors import LostPeerError
from distrain_trainer.peers import Watch, wait_until_gone

SPEAKER = (
    "import sys, time; from distrain_trainer.peers import Watch; "
    "Watch({'ps 0': sys.argv[1], 'worker 0': sys.argv[2]}).hear(int(sys.argv[3])); print(flush=True); time.sleep(60)"
)
OTHER = (
    "import sys, time; from distrain_trainer.peers import Watch; "
    "Watch({'ps 0': sys.argv[1]}, speaker=sys.argv[2]); time.sleep(60)"
)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(distrain_trainer.__file__).parents[1])}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def serve() -> tuple[socket.socket, str]:
    server = socket.create_server(("127.0.0.1", 0))
    return server, f"127.0.0.1:{server.getsockname()[1]}"


def test_port_that_refuses_is_a_lost_process_and_one_that_never_answered_is_not() -> None:
    server, address = serve()
    threading.Timer(1.5, server.close).start()
    stopped = threading.Event()

    with pytest.raises(LostPeerError, match=f"^worker 3 at {address} is gone; see why in its log"):
        wait_until_gone("worker 3", address, stopped)
    threading.Timer(3.5, stopped.set).start()
    wait_until_gone("worker 3", address, stopped)


def test_processes_meet_once_the_last_one_listens() -> None:
    early, first = serve()
    late, second = serve()
    port = late.getsockname()[1]
    late.close()
    begun, started = time.monotonic(), []

    def start_late() -> None:
        started.append(socket.create_server(("127.0.0.1", port)))

    threading.Timer(1, start_late).start()
    watch = Watch({"worker 0": first, "ps 0": second})
    watch.meet()

    assert 1 <= time.monotonic() - begun < 5
    watch.stop()
    for server in (early, *started):
        server.close()


def test_speaker_names_whom_another_process_misses_though_it_never_saw_that_one() -> None:
    gone, missing = serve()
    gone.close()
    worker, witness = serve()
    free, place = serve()
    free.close()
    speaker = start(SPEAKER, missing, witness, place.rpartition(":")[2])
    assert speaker.stdout is not None
    speaker.stdout.readline()

    tell(place, "ps 9")  # A stranger's word ends nobody.
    tell(place, "ps 0")
    worker.close()

    _, said = speaker.communicate(timeout=10)
    assert said == f"distrain: ps 0 at {missing} is gone; see why in its log, and its pod's events\n"
    assert speaker.returncode == 1


def test_process_that_misses_another_passes_it_on_before_it_ends() -> None:
    server, address = serve()
    speaker, place = serve()
    other = start(OTHER, address, place)
    server.accept()

    server.close()

    connection, _ = speaker.accept()
    assert connection.recv(100) == b"ps 0"
    assert other.communicate(timeout=10)[1].startswith(f"distrain: ps 0 at {address} is gone")


def tell(place: str, word: str) -> None:
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(word.encode())
