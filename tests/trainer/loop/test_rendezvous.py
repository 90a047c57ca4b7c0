"""Test that the processes of a job wait for each other. If a process never starts, the error names it."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from distrain_trainer.errors import LostPeerError
from distrain_trainer.loop import rendezvous
from lab.waiting import free_port


def test_processes_meet_once_the_last_one_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as early, socket.socket() as late:
        late.bind(("127.0.0.1", 0))  # Until this socket listens, connections to it are refused.
        first, second = (f"127.0.0.1:{each.getsockname()[1]}" for each in (early, late))
        begun = time.monotonic()
        threading.Timer(1, late.listen).start()

        rendezvous.wait_until_listening({"worker 0": first, "ps 0": second})

        assert time.monotonic() - begun >= 1


def test_process_that_never_starts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "SECONDS_TO_START", 0.3)
    address = f"127.0.0.1:{free_port()}"

    with pytest.raises(LostPeerError, match=f"^worker 3 at {address} has not started in 0 s; see its log, and its pod"):
        rendezvous.wait_until_listening({"worker 3": address})
