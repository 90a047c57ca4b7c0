"""Test that calls to a broken, busy or unreachable S3 server are retried until the time limit for outages."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from distrain_trainer.errors import StoppedError, StorageError, Termination, UnavailableError
from distrain_trainer.storage import Retry, open_store
from distrain_trainer.storage.retry import is_waited_for
from tests.trainer.fixtures.unsteady_s3 import Clock, Unsteady, tag_of


@pytest.fixture(autouse=True)
def keys_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Unsteady]]:
    class Handler(Unsteady):
        content = bytes(range(256)) * 4000
        happens = staticmethod(lambda: None)
        asked = []  # noqa: RUF012

    # These dictionaries may contain calls of earlier tests.
    monkeypatch.setattr("distrain_trainer.storage.retry._in_vain", {})
    monkeypatch.setattr("distrain_trainer.storage.retry._calling", {})
    monkeypatch.setattr("distrain_trainer.storage.retry.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("distrain_trainer.storage.retry.LONGEST_PAUSE", 0.02)
    monkeypatch.setattr("distrain_trainer.storage.body.SECONDS_BETWEEN", 0.01)
    monkeypatch.setattr("distrain_trainer.storage.s3.ATTEMPTS", 1)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Handler
        server.shutdown()


class Refusal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()
        self.wfile.write(b"<Error><Code>AccessDenied</Code></Error>")

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


def test_server_that_starts_later_is_waited_for_and_its_refusal_is_final(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusal, bind_and_activate=False) as server:
        server.server_bind()  # Until the server listens, connections to it are refused.
        endpoint = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        with pytest.raises(UnavailableError):
            open_store("s3://datasets/digits", value="data.uri").read("a.gz")

        def start(self: Clock, seconds: float) -> None:
            server.server_activate()
            threading.Thread(target=server.serve_forever, daemon=True).start()

        monkeypatch.setattr(Clock, "sleep", start)
        monkeypatch.setattr("distrain_trainer.storage.retry.time", Clock())

        with pytest.raises(StorageError, match=r"^data\.uri: the keys of s3\.secretName have no permission to read"):
            open_store("s3://datasets/digits", value="data.uri", retry=Retry()).read("a.gz")

        server.shutdown()
    said = f"s3.endpoint: {endpoint} cannot be reached (Connection refused); correct it, or start the server"
    assert capsys.readouterr().err == f"{said}; trying again for 600 s\n"


def test_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setattr("distrain_trainer.storage.retry.SECONDS_TO_WAIT", 0.1)
    monkeypatch.setattr("distrain_trainer.storage.retry.FIRST_PAUSE", 0.1)
    store = open_store("s3://datasets/digits", value="data.uri", retry=Retry())

    with pytest.raises(UnavailableError, match=r"cannot be reached \(Connection refused\)"):
        store.read("a.gz")


def test_wait_counts_from_the_first_failure_of_a_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("distrain_trainer.storage.retry.time", clock := Clock())
    outage = range(700, 1000)

    def long_read() -> str:
        clock.now = max(clock.now, 700.0)
        if int(clock.now) in outage:
            raise UnavailableError("no answer")
        return "content"

    assert Retry().call("read", long_read) == "content"
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "no answer; trying again for 600 s"
    assert re.fullmatch(r"the storage answers again, after 3\d\d s", last)

    outage = range(5000)
    with pytest.raises(UnavailableError, match="no answer"):
        Retry().call("read", long_read)
    assert clock.now < 1700


def test_start_that_is_told_to_end_waits_for_no_storage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise UnavailableError("s3.endpoint: no answer")

    monkeypatch.setattr(Termination, "requested", True)

    with pytest.raises(StoppedError):
        Retry(heeds_sigterm=True).call("read", fail)

    assert capsys.readouterr().err == "s3.endpoint: no answer; stopped before the training began\n"


def test_body_that_breaks_off_is_read_on_from_there(unsteady: type[Unsteady]) -> None:
    unsteady.happens = staticmethod(lambda: 300_000)

    content = open_store("s3://data/set", value="data.uri").read("a.tar", start=1000)

    assert content == unsteady.content[1000:]
    ranges, tags = zip(*unsteady.asked, strict=True)
    assert ranges == tuple(f"bytes={first}-" for first in (1000, 301_000, 601_000, 901_000))
    assert tags == (None, *[tag_of(unsteady.content)] * 3)


def test_body_that_breaks_off_after_a_few_bytes_is_read_all_the_same(unsteady: type[Unsteady]) -> None:
    unsteady.content = unsteady.content[:20_000]
    unsteady.happens = staticmethod(lambda: 5000)

    assert open_store("s3://data/set", value="data.uri").read("a.gz") == unsteady.content


def cut_and_change(unsteady: type[Unsteady]) -> int | None:
    """Break the first answer off after 300,000 bytes. At the next request, the object has another content."""
    if unsteady.asked:
        unsteady.content = b"!" * 1_000_000
        return None
    return 300_000


def test_object_that_is_written_anew_while_it_is_read_is_read_whole(unsteady: type[Unsteady]) -> None:
    unsteady.happens = staticmethod(partial(cut_and_change, unsteady))

    assert open_store("s3://data/set", value="data.uri").read("a.tar") == b"!" * 1_000_000


@pytest.mark.parametrize(("start", "length"), [(0, None), (1000, None), (1000, 500_000)])
def test_server_that_heeds_no_range_mixes_nothing_up(unsteady: type[Unsteady], start: int, length: int | None) -> None:
    unsteady.heeds = ("If-Match",)
    cuts: list[int | None] = [None, 300_000]
    unsteady.happens = staticmethod(lambda: cuts.pop() if cuts else None)

    content = open_store("s3://data/set", value="data.uri").read("a.tar", start=start, length=length)

    assert content == unsteady.content[start : None if length is None else start + length]


def test_object_that_is_written_anew_where_no_condition_is_heeded_is_read_whole(unsteady: type[Unsteady]) -> None:
    unsteady.heeds = ("Range",)
    unsteady.happens = staticmethod(partial(cut_and_change, unsteady))

    assert open_store("s3://data/set", value="data.uri").read("a.tar") == b"!" * 1_000_000


@pytest.mark.parametrize("has_length", [True, False], ids=["length", "no-length"])
def test_server_that_heeds_no_range_fills_memory_with_what_was_asked_for(
    unsteady: type[Unsteady], has_length: bool
) -> None:
    unsteady.heeds, unsteady.has_length = ("If-Match",), has_length
    place = bytearray(5000)

    open_store("s3://data/set", value="data.uri").read_into("a.tar", memoryview(place), start=0)

    assert place == unsteady.content[:5000]


@pytest.mark.parametrize("lacks", ["has_length", "has_tag"])
def test_answer_without_a_length_or_a_tag_is_read_to_its_end(unsteady: type[Unsteady], lacks: str) -> None:
    setattr(unsteady, lacks, False)

    assert open_store("s3://data/set", value="data.uri").read("a.tar") == unsteady.content


def test_body_that_never_comes_is_given_up_and_named(unsteady: type[Unsteady]) -> None:
    unsteady.happens = staticmethod(lambda: 0)

    with pytest.raises(
        UnavailableError, match=r"^s3\.endpoint: http.* cannot be reached \(a connection ends after 0 of 1024000"
    ):
        open_store("s3://data/set", value="data.uri").read("a.tar")


def test_busy_server_is_asked_again(unsteady: type[Unsteady], capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[str | None] = ["SlowDown"] * 7
    unsteady.happens = staticmethod(lambda: answers.pop() if answers else None)

    content = open_store("s3://data/set", value="data.uri", retry=Retry()).read("a.tar")

    assert content == unsteady.content
    first, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"data\.uri: http.* does not read s3://data/set: SlowDown; trying again for 600 s", first)
    assert re.fullmatch(r"the storage answers again, after \d+ s", last)


def test_busy_server_ends_no_run_for_good(unsteady: type[Unsteady]) -> None:
    unsteady.happens = staticmethod(lambda: "SlowDown")

    with pytest.raises(UnavailableError) as raised:
        open_store("s3://data/set", value="data.uri").read("a.tar")

    assert raised.value.exit_code == 1


def test_refusal_is_final_at_first_and_waited_out_later(unsteady: type[Unsteady]) -> None:
    answers: list[str | None] = [*["AccessDenied"] * 3, None, "AccessDenied"]
    unsteady.happens = staticmethod(lambda: answers.pop() if answers else None)
    store = open_store("s3://data/set", value="data.uri", retry=Retry())

    with pytest.raises(StorageError, match=r"the keys of s3\.secretName have no permission to read") as raised:
        store.read("a.tar")
    assert raised.value.exit_code == 2
    store.read("a.tar")
    assert store.read("a.tar") == unsteady.content


def test_refusal_that_stays_ends_the_run_so_that_it_can_be_resumed(
    unsteady: type[Unsteady], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("s3://data/set", value="data.uri", retry=Retry(seconds=0.05))
    store.read("a.tar")
    unsteady.happens = staticmethod(lambda: "AccessDenied")

    with pytest.raises(UnavailableError, match=r"the keys of s3\.secretName have no permission to read"):
        store.read("a.tar")


def test_ranks_but_the_first_speak_of_a_long_outage_alone_and_name_their_pod(
    unsteady: type[Unsteady], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "3")
    store = open_store("s3://data/set", value="data.uri", retry=Retry(seconds=60))
    for seconds in (60, 0.05):
        monkeypatch.setattr("distrain_trainer.storage.retry.SECONDS_BETWEEN_LINES", seconds)
        answers: list[str | None] = ["SlowDown"] * 12
        unsteady.happens = staticmethod(lambda answers=answers: answers.pop() if answers else None)
        store.read("a.tar")

    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"{socket.gethostname()}: ") for line in lines)
    assert re.search(r": the storage answers again, after \d+ s$", lines[-1])


def test_wait_for_the_storage_is_told_from_a_hang(unsteady: type[Unsteady], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.storage.retry.SECONDS_OF_A_CALL", 0.1)
    unsteady.happens = staticmethod(lambda: "SlowDown" if not is_waited_for() else None)
    store = open_store("s3://data/set", value="data.uri", retry=Retry())

    assert store.read("a.tar") == unsteady.content
    assert not is_waited_for()


def test_checkpoints_that_get_no_answer_tell_that_input_may_be_late(unsteady: type[Unsteady]) -> None:
    # The chief of a TFJob reads no data itself, but its workers may be waiting for data. In this case, the chief must
    # not conclude that the workers hang.
    store = open_store("s3://data/set", value="checkpoint.uri")
    unsteady.happens = staticmethod(lambda: "SlowDown")
    with pytest.raises(UnavailableError):
        store.read("HEAD")
    assert is_waited_for()
    unsteady.happens = staticmethod(lambda: None)

    store.read("HEAD")

    assert not is_waited_for()
