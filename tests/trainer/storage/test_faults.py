"""Test that reads from S3 and writes to S3 are complete, even if the network is faulty or the server is busy."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from distrain_trainer.errors import UnavailableError
from distrain_trainer.storage import Retry, Store, open_store
from lab.s3.proxy import Fault, Proxy

CONTENT = os.urandom(1_000_000)
# Faults in requests. Each of these faults is temporary, so a retry eventually succeeds.
FAULTS: dict[str, dict[str, Fault]] = {
    "cut": {"Cut": 300_000, "Times": 3},
    "cut-early": {"Cut": 100, "Times": 3},
    "cut-at-each": {"Method": "GET", "Cut": 300_000},
    "reset": {"Reset": True, "Times": 4},
    "lost-answer": {"Lose": True, "Times": 4},
    "stall": {"Stall": 300_000, "Times": 1},
    "silence": {"Stall": 0, "Times": 2},
    "slow-down": {"Status": 503, "Code": "SlowDown", "Times": 5},
    "error": {"Status": 500, "Code": "InternalError", "Seconds": 3},
    "delay": {"Delay": 0.3},
    "rate": {"Rate": 2_000_000},
}


def through(*names: str) -> pytest.MarkDecorator:
    """Run a test with these faults. In the full matrix, run it with the other faults too."""
    marks = {name: [] if name in names else [pytest.mark.full] for name in FAULTS}
    return pytest.mark.parametrize(
        "fault", [pytest.param(fault, marks=marks[name], id=name) for name, fault in FAULTS.items()]
    )


@pytest.fixture
def store(s3_server: Any, s3_proxy: Proxy, s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_proxy.endpoint)
    monkeypatch.setattr("distrain_trainer.storage.s3.READ_TIMEOUT", 1)
    monkeypatch.setattr("distrain_trainer.storage.s3.CONNECT_TIMEOUT", 1)
    monkeypatch.setattr("distrain_trainer.storage.retry.LONGEST_PAUSE", 1)
    client = s3_server.boto3_client()
    client.create_bucket(Bucket=(bucket := f"faults-{time.monotonic_ns()}"))
    client.put_object(Bucket=bucket, Key="set/a.tar", Body=CONTENT)
    return open_store(f"s3://{bucket}/set", value="data.uri", retry=Retry(300))


@through("cut", "reset", "stall", "slow-down")
def test_file_is_read_whole_and_in_parts(fault: dict[str, Fault], store: Store, s3_proxy: Proxy) -> None:
    with s3_proxy.fault(**fault):
        assert store.read("a.tar") == CONTENT
        assert s3_proxy.faulted()

    with s3_proxy.fault(**fault):
        assert store.read("a.tar", start=100_000, length=700_000) == CONTENT[100_000:800_000]

    place = bytearray(700_000)
    with s3_proxy.fault(**fault):
        assert store.read_into("a.tar", memoryview(place), start=100_000) == len(CONTENT)
        assert place == CONTENT[100_000:800_000]


@through("cut", "slow-down")
def test_file_is_written(fault: dict[str, Fault], store: Store, s3_proxy: Proxy) -> None:
    with s3_proxy.fault(**fault):
        store.write("b.tar", CONTENT[::-1])

    assert store.read("b.tar") == CONTENT[::-1]


def test_large_file_is_written_in_parts(store: Store, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.storage.s3.LARGE", 1_000_000)
    content = CONTENT * 20

    with s3_proxy.fault(Every=2, Reset=True):
        store.write("large.tar", content)
        assert s3_proxy.faulted() > 3

    assert store.read("large.tar") == content


@through("lost-answer")
def test_file_is_written_once_on_its_condition(fault: dict[str, Fault], store: Store, s3_proxy: Proxy) -> None:
    with s3_proxy.fault(**fault):
        first = store.write_if("HEAD", b"1" * 400_000, None)
        second = store.write_if("HEAD", b"2" * 400_000, first)

    assert store.read_tagged("HEAD") == (b"2" * 400_000, second)


@through("error")
def test_files_are_listed(fault: dict[str, Fault], store: Store, s3_proxy: Proxy) -> None:
    # The response with the list is shorter than the length at which the proxy cuts off responses. So do not require
    # that the fault has happened.
    names = {"a.tar", *(f"c/{number}" for number in range(20))}
    for name in names:
        store.write(name, b"")

    with s3_proxy.fault(**fault):
        assert {*store.names()} == names


def test_list_of_many_pages_goes_on_where_it_was(store: Store, s3_server: Any, s3_proxy: Proxy) -> None:
    client, names = s3_server.boto3_client(), [f"c/{number:04}" for number in range(1100)]
    bucket = store.uri.split("/")[2]
    with ThreadPoolExecutor(16) as writers:
        list(writers.map(lambda name: client.put_object(Bucket=bucket, Key=f"set/{name}"), names))
    listed = store.names()
    first = next(listed)

    with s3_proxy.fault(Reset=True, Times=4):
        assert [first, *listed] == ["a.tar", *names]


def test_wrong_tags_spoil_no_content(store: Store, s3_proxy: Proxy) -> None:
    with s3_proxy.fault(Cut=300_000, WrongETag=True, Times=2):
        assert store.read("a.tar") == CONTENT


def test_server_that_is_away_is_waited_for(store: Store, s3_proxy: Proxy) -> None:
    s3_proxy.stop()
    timer = threading.Timer(5, s3_proxy.start)
    timer.start()

    assert store.read("a.tar") == CONTENT
    timer.join()


def test_server_that_stays_away_is_given_up(store: Store, s3_proxy: Proxy) -> None:
    impatient = open_store(store.uri, value="data.uri", retry=Retry(2))
    s3_proxy.stop()

    with pytest.raises(UnavailableError, match=r"cannot be reached \(Connection refused\)"):
        impatient.read("a.tar")
