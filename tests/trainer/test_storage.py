"""A folder and a real S3 server are read and written alike, and fail in one clear line."""

from __future__ import annotations

import errno
import hashlib
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import Stubber

from distrain_trainer.errors import ConflictError, StorageError, UnavailableError
from distrain_trainer.storage import Patience, S3Store, Store, once_reachable, open_store
from distrain_trainer.storage.retry import is_waited_for


@pytest.fixture(autouse=True)
def s3_in_environment(s3_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_env.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def bucket(s3_server: Any) -> str:
    s3_server.boto3_client().create_bucket(Bucket="storage")
    return "storage"


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> Store:
    uri = str(tmp_path / "not" / "yet") if request.param == "folder" else f"s3://{bucket}/not/yet/"
    return open_store(uri, value="output.uri")


def test_what_was_written_is_read(store: Store) -> None:
    store.write("log.txt", b"first")

    store.write("log.txt", b"second")

    assert store.read("log.txt") == b"second"


@pytest.mark.parametrize(
    ("start", "length", "part"),
    [
        pytest.param(0, None, b"0123456789", id="whole"),
        pytest.param(2, 3, b"234", id="inside"),
        pytest.param(7, None, b"789", id="to-the-end"),
        pytest.param(8, 5, b"89", id="over-the-end"),
        pytest.param(10, 5, b"", id="at-the-end"),
        pytest.param(12, None, b"", id="beyond-the-end"),
    ],
)
def test_part_of_a_file_is_read(store: Store, start: int, length: int | None, part: bytes) -> None:
    store.write("digits", b"0123456789")

    assert store.read("digits", start=start, length=length) == part


def test_files_are_listed_by_their_path_below(store: Store) -> None:
    for name in ("set/log.txt", "set/train/a/1.png", "set/train/a/2.png", "set-2/other.txt"):
        store.write(name, b"x")
    data = open_store(f"{store.uri.rstrip('/')}/set/", value="data.uri")

    assert sorted(data.names()) == ["log.txt", "train/a/1.png", "train/a/2.png"]
    assert data.path("log.txt") == f"{store.uri.rstrip('/')}/set/log.txt"


def test_file_is_written_only_over_the_content_that_was_read(store: Store) -> None:
    assert store.read_tagged("HEAD") is None
    first = store.write_if("HEAD", b"1", None)
    assert store.read_tagged("HEAD") == (b"1", first)

    second = store.write_if("HEAD", b"2", first)

    with pytest.raises(ConflictError):
        store.write_if("HEAD", b"3", first)
    with pytest.raises(ConflictError):
        store.write_if("HEAD", b"3", None)
    assert store.read_tagged("HEAD") == (b"2", second)


def _md5(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


@pytest.mark.parametrize(
    ("answers", "held"),
    [
        pytest.param([(b"1", _md5(b"2")), (b"2", _md5(b"2"))], (b"2", _md5(b"2")), id="of-two-writes"),
        # As of what is encrypted with a key of its own.
        pytest.param([(b"1", '"tag"')] * 9, (b"1", '"tag"'), id="no-sum-of-its-content"),
    ],
)
def test_content_is_read_with_the_tag_of_the_same_write(
    answers: list[tuple[bytes, str]], held: tuple[bytes, str]
) -> None:
    left = iter(answers)

    def get_object(**_: str) -> dict[str, Any]:
        content, tag = next(left)
        return {"Body": io.BytesIO(content), "ETag": tag, "ContentLength": len(content)}

    store = S3Store("s3://bucket", "checkpoint.uri", "bucket", "", SimpleNamespace(get_object=get_object))

    assert store.read_tagged("HEAD") == held


def test_of_writers_that_race_one_wins(store: Store) -> None:
    def write(content: bytes) -> bool:
        try:
            store.write_if("first", content, None)
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as writers:
        won = list(writers.map(write, [bytes([number]) for number in range(8)]))

    assert won.count(True) == 1
    assert store.read("first") == bytes([won.index(True)])


def test_deleted_file_is_gone_and_so_is_one_that_was_never_there(store: Store) -> None:
    store.write("1-0/state.npz", b"x")

    for name in ("1-0/state.npz", "1-0/state.npz", "absent"):
        store.delete(name)

    assert "1-0/state.npz" not in store.names()


def test_write_whose_answer_was_lost_is_no_conflict_with_itself(bucket: str) -> None:
    store = open_store(f"s3://{bucket}/lost", value="checkpoint.uri")
    store.write_if("HEAD", b"mine", None)

    # What boto3 does when the answer to the first one did not come.
    assert store.write_if("HEAD", b"mine", None)


def test_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("distrain_trainer.storage.folder.os.fsync", full)

    with pytest.raises(StorageError, match=r"^checkpoint\.uri: .*/a cannot be written: No space left on device; free"):
        open_store(str(tmp_path), value="checkpoint.uri").write("a", b"x")


def test_linked_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.png").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").symlink_to(tmp_path / "elsewhere")

    assert list(open_store(str(tmp_path / "data"), value="data.uri").names()) == ["a/1.png"]


def test_marker_of_an_empty_folder_is_no_file() -> None:
    # Stubbed, since the S3 server keeps such keys as folders.
    store = open_store("s3://b/set", value="data.uri")
    assert isinstance(store, S3Store)
    with Stubber(store.client) as stub:
        keys = [{"Key": key} for key in ("set/", "set/train/", "set/train/a.tar")]
        stub.add_response("list_objects_v2", {"Contents": keys}, {"Bucket": "b", "Prefix": "set/"})

        assert list(store.names()) == ["train/a.tar"]


@pytest.mark.parametrize(
    ("uri", "key"),
    [
        pytest.param("s3://b", "log.txt", id="bucket"),
        pytest.param("s3://b/", "log.txt", id="bucket-slash"),
        pytest.param("s3://b/default/run1", "default/run1/log.txt", id="prefix"),
        pytest.param("s3://b/default/run1/", "default/run1/log.txt", id="prefix-slash"),
    ],
)
def test_key_has_no_empty_part(uri: str, key: str) -> None:
    # Stubbed, since the S3 server keeps keys as paths, to which a slash more makes no difference.
    store = open_store(uri, value="output.uri")
    assert isinstance(store, S3Store)
    with Stubber(store.client) as stub:
        stub.add_response("put_object", {}, {"Bucket": "b", "Key": key, "Body": b"x"})

        store.write("log.txt", b"x")

        stub.assert_no_pending_responses()


def test_nothing_under_a_prefix_is_said(bucket: str) -> None:
    store = open_store(f"s3://{bucket}/emptiness", value="data.uri")

    with pytest.raises(StorageError, match=r"^data\.uri: s3://storage/emptiness has no a\.gz \(it holds nothing\)"):
        store.read("a.gz")


@pytest.mark.parametrize("verb", ["read", "write", "list"])
def test_missing_bucket_is_named(verb: str, s3_server: Any) -> None:
    with pytest.raises(
        StorageError, match=rf'^data\.uri: bucket "digitz" does not exist at {s3_server.endpoint}; create'
    ):
        _use(open_store("s3://digitz/x", value="data.uri"), verb)


@pytest.mark.parametrize(
    ("variable", "code"),
    [
        pytest.param("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId|XAdminUserNotFound", id="key"),
        pytest.param("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch", id="secret"),
    ],
)
def test_wrong_keys_are_told_from_a_missing_bucket(
    variable: str, code: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "wrong")

    with pytest.raises(StorageError, match=rf"^s3\.secretName: http.* refuses the keys of this Secret \({code}\)"):
        open_store(f"s3://{bucket}", value="data.uri").read("a.gz")


def test_denied_access_names_the_place_and_the_verb() -> None:
    # The S3 server's root user is denied nothing, so the answer is a stub's.
    store = open_store("s3://theirs/x", value="output.uri")
    assert isinstance(store, S3Store)
    with Stubber(store.client) as stub:
        stub.add_client_error("put_object", "AccessDenied", http_status_code=403)

        with pytest.raises(
            StorageError, match=r"^output\.uri: the keys of s3\.secretName may not write s3://theirs/x at http"
        ):
            store.write("log.txt", b"")


def test_missing_keys_are_said(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    with pytest.raises(StorageError, match=r"^s3\.secretName: no S3 keys are set, and s3://storage needs them"):
        open_store(f"s3://{bucket}", value="data.uri").read("a.gz")


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        pytest.param(
            "http://127.0.0.1:1",
            r"^s3\.endpoint: http://127\.0\.0\.1:1 cannot be reached \(Connection refused\)",
            id="refused",
        ),
        pytest.param(
            "http://s3.invalid", r"^s3\.endpoint: http://s3\.invalid cannot be reached \(.*[Nn]ame", id="no-such-name"
        ),
        pytest.param("s3.example.org", r"^s3\.endpoint: 's3\.example\.org' is no URL", id="no-url"),
    ],
)
def test_unreachable_endpoint_is_named(endpoint: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)

    with pytest.raises(StorageError, match=message) as raised:
        open_store("s3://datasets/digits", value="data.uri").read("a.gz")
    # A name server may be away, too; an address that is none stays so.
    assert raised.value.exit_code == (2 if "no URL" in message else 1)


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """A server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_silent_endpoint_is_given_up_within_a_minute(silent_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", silent_endpoint)
    monkeypatch.setattr("distrain_trainer.storage.s3.READ_TIMEOUT", 0.5)
    started = time.monotonic()

    with pytest.raises(StorageError, match=r"^s3\.endpoint: http://127.* cannot be reached \(.*timed out"):
        open_store("s3://datasets/digits", value="data.uri").read("a.gz")

    # Three attempts and the pauses between them: with the real 15 s, 55 s at most.
    assert time.monotonic() - started < 1.5 + 10


class Refusal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()
        self.wfile.write(b"<Error><Code>AccessDenied</Code></Error>")

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def test_server_that_starts_later_is_waited_for_and_its_refusal_is_final(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusal, bind_and_activate=False) as server:
        server.server_bind()  # Until it listens, connections are refused.
        endpoint = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        read = partial(open_store("s3://datasets/digits", value="data.uri").read, "a.gz")
        with pytest.raises(UnavailableError):
            read()
        threading.Timer(1, server.server_activate).start()
        threading.Thread(target=server.serve_forever, daemon=True).start()

        with pytest.raises(StorageError, match=r"^data\.uri: the keys of s3\.secretName may not read"):
            once_reachable(read)

        server.shutdown()
    said = f"s3.endpoint: {endpoint} cannot be reached (Connection refused); correct it, or start the server"
    assert capsys.readouterr().err == f"{said}; trying again for 600 s\n"


def test_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setattr("distrain_trainer.storage.retry.SECONDS_TO_WAIT", 0.1)
    monkeypatch.setattr("distrain_trainer.storage.retry.FIRST_PAUSE", 0.1)
    store = open_store("s3://datasets/digits", value="data.uri")

    with pytest.raises(UnavailableError, match=r"cannot be reached \(Connection refused\)"):
        once_reachable(lambda: store.read("a.gz"))


def test_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StorageError, match=r"^output\.uri: .*/file/run1/log\.txt cannot be written: Not a directory"):
        open_store(str(tmp_path / "file" / "run1"), value="output.uri").write("log.txt", b"")


def test_folder_that_is_not_there_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match=r"^data\.uri: .*/absent cannot be listed: No such file or directory; mount the volume there"
    ):
        list(open_store(str(tmp_path / "absent"), value="data.uri").names())


def test_missing_folder_is_said_to_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"^data\.uri: .*/absent has no a\.gz \(it holds nothing\)"):
        open_store(str(tmp_path / "absent"), value="data.uri").read("a.gz")


def _use(store: Store, verb: str) -> None:
    uses: dict[str, Callable[[], object]] = {
        "read": lambda: store.read("a.gz"),
        "write": lambda: store.write("a.gz", b""),
        "list": lambda: list(store.names()),
    }
    uses[verb]()


class Unsteady(BaseHTTPRequestHandler):
    """An S3 server of one object. Before each answer it asks `happens`, which may have it cut or refused."""

    content = b""
    heeds: tuple[str, ...] = ("Range", "If-Match")
    has_length = has_tag = True
    happens: Callable[[], int | str | None]
    asked: list[tuple[str | None, str | None]]

    def do_GET(self) -> None:
        happening = self.happens()
        self.asked.append((self.headers["Range"], self.headers["If-Match"]))
        if isinstance(happening, str):
            self._answer(503 if happening == "SlowDown" else 403, f"<Error><Code>{happening}</Code></Error>".encode())
        elif "If-Match" in self.heeds and self.headers["If-Match"] not in (None, _md5(self.content)):
            self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        elif "Range" not in self.heeds:
            self._answer(200, self.content, until=happening)
        else:
            first, _, last = (self.headers["Range"] or "bytes=0-").removeprefix("bytes=").partition("-")
            part = self.content[int(first) : int(last) + 1 if last else None]
            self._answer(206, part, until=happening)

    def _answer(self, status: int, content: bytes, until: int | None = None) -> None:
        self.send_response(status)
        if self.has_length:
            self.send_header("Content-Length", str(len(content)))
        if self.has_tag:
            self.send_header("ETag", _md5(self.content))
        self.end_headers()
        self.wfile.write(content[:until])

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Unsteady]]:
    class Handler(Unsteady):
        content = bytes(range(256)) * 4000
        happens = staticmethod(lambda: None)
        asked = []  # noqa: RUF012

    # Of stores that other tests have asked in vain.
    monkeypatch.setattr("distrain_trainer.storage.retry._in_vain", {})
    monkeypatch.setattr("distrain_trainer.storage.retry.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("distrain_trainer.storage.retry.LONGEST_PAUSE", 0.02)
    monkeypatch.setattr("distrain_trainer.storage.body.SECONDS_BETWEEN", 0.01)
    monkeypatch.setattr("distrain_trainer.storage.s3.ATTEMPTS", 1)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Handler
        server.shutdown()


def test_body_that_breaks_off_is_read_on_from_there(unsteady: type[Unsteady]) -> None:
    unsteady.happens = staticmethod(lambda: 300_000)

    content = open_store("s3://data/set", value="data.uri").read("a.tar", start=1000)

    assert content == unsteady.content[1000:]
    ranges, tags = zip(*unsteady.asked, strict=True)
    assert ranges == tuple(f"bytes={first}-" for first in (1000, 301_000, 601_000, 901_000))
    assert tags == (None, *[_md5(unsteady.content)] * 3)


def test_body_that_breaks_off_after_a_few_bytes_is_read_all_the_same(unsteady: type[Unsteady]) -> None:
    unsteady.content = unsteady.content[:20_000]
    unsteady.happens = staticmethod(lambda: 5000)

    assert open_store("s3://data/set", value="data.uri").read("a.gz") == unsteady.content


def test_object_that_is_written_anew_while_it_is_read_is_read_whole(unsteady: type[Unsteady]) -> None:
    def cut_and_change() -> int | None:
        if unsteady.content[:1] == b"!":
            return None
        threading.Timer(0, lambda: setattr(unsteady, "content", b"!" * 1_000_000)).start()
        return 300_000

    unsteady.happens = staticmethod(cut_and_change)

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

    def cut_and_change() -> int | None:
        if unsteady.asked:
            unsteady.content = b"!" * 1_000_000
            return None
        return 300_000

    unsteady.happens = staticmethod(cut_and_change)

    assert open_store("s3://data/set", value="data.uri").read("a.tar") == b"!" * 1_000_000


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

    content = open_store("s3://data/set", value="data.uri", patience=Patience()).read("a.tar")

    assert content == unsteady.content
    first, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"data\.uri: http.* does not read s3://data/set: SlowDown; trying again for 600 s", first)
    assert last == "the storage answers again, after 0 s"


def test_busy_server_ends_no_run_for_good(unsteady: type[Unsteady]) -> None:
    unsteady.happens = staticmethod(lambda: "SlowDown")

    with pytest.raises(UnavailableError) as raised:
        open_store("s3://data/set", value="data.uri").read("a.tar")

    assert raised.value.exit_code == 1


def test_refusal_is_final_at_first_and_waited_out_later(unsteady: type[Unsteady]) -> None:
    answers: list[str | None] = [*["AccessDenied"] * 3, None, "AccessDenied"]
    unsteady.happens = staticmethod(lambda: answers.pop() if answers else None)
    store = open_store("s3://data/set", value="data.uri", patience=Patience())

    with pytest.raises(StorageError, match=r"the keys of s3\.secretName may not read") as raised:
        store.read("a.tar")
    assert raised.value.exit_code == 2
    store.read("a.tar")
    assert store.read("a.tar") == unsteady.content


def test_refusal_that_stays_ends_the_run_so_that_it_can_be_resumed(
    unsteady: type[Unsteady], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("s3://data/set", value="data.uri", patience=Patience(seconds=0.05))
    store.read("a.tar")
    unsteady.happens = staticmethod(lambda: "AccessDenied")

    with pytest.raises(UnavailableError, match=r"the keys of s3\.secretName may not read"):
        store.read("a.tar")


def test_ranks_but_the_first_speak_of_a_long_outage_alone_and_name_their_pod(
    unsteady: type[Unsteady], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "3")
    store = open_store("s3://data/set", value="data.uri", patience=Patience(seconds=5))
    for seconds in (60, 0.05):
        monkeypatch.setattr("distrain_trainer.storage.retry.SECONDS_BETWEEN_WORDS", seconds)
        answers: list[str | None] = ["SlowDown"] * 12
        unsteady.happens = staticmethod(lambda answers=answers: answers.pop() if answers else None)
        store.read("a.tar")

    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"{socket.gethostname()}: ") for line in lines)
    assert lines[-1].endswith("the storage answers again, after 0 s")


def test_wait_for_the_storage_is_told_from_a_hang(unsteady: type[Unsteady], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distrain_trainer.storage.retry.SECONDS_OF_A_CALL", 0.1)
    unsteady.happens = staticmethod(lambda: "SlowDown" if not is_waited_for() else None)
    store = open_store("s3://data/set", value="data.uri", patience=Patience())

    assert store.read("a.tar") == unsteady.content
    assert not is_waited_for()


def test_checkpoints_that_get_no_answer_tell_that_input_may_be_late(unsteady: type[Unsteady]) -> None:
    # The chief of a TFJob reads no data itself: it must not take workers that wait for theirs for hung ones.
    store = open_store("s3://data/set", value="checkpoint.uri")
    unsteady.happens = staticmethod(lambda: "SlowDown")
    with pytest.raises(UnavailableError):
        store.read("HEAD")
    assert is_waited_for()
    unsteady.happens = staticmethod(lambda: None)

    store.read("HEAD")

    assert not is_waited_for()


def test_wrong_region_is_named() -> None:
    store = open_store("s3://theirs/x", value="data.uri")
    assert isinstance(store, S3Store)
    with Stubber(store.client) as stub:
        answer = "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'"
        stub.add_client_error("get_object", "AuthorizationHeaderMalformed", answer, http_status_code=400)

        with pytest.raises(
            StorageError, match=r'^s3\.region: bucket "theirs" is not in us-east-1: .*eu-west-1'
        ) as raised:
            store.read("log.txt")

    assert raised.value.exit_code == 2
