"""Test the error line for each folder or S3 server that cannot be used."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber

from distrain_trainer.errors import StorageError
from distrain_trainer.storage import S3Store, Store, open_store

pytestmark = pytest.mark.usefixtures("s3_in_environment")


def test_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("distrain_trainer.storage.folder.os.fsync", full)

    with pytest.raises(StorageError, match=r"^checkpoint\.uri: .*/a cannot be written: No space left on device; free"):
        open_store(str(tmp_path), value="checkpoint.uri").write("a", b"x")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_volume_without_file_locks_is_said(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("distrain_trainer.storage.folder.fcntl.flock", refuse)

    with pytest.raises(
        StorageError, match=rf"^checkpoint\.uri: .*/\.lock cannot be locked: {os.strerror(code)}; mount a volume with"
    ):
        open_store(str(tmp_path), value="checkpoint.uri").write_if("HEAD", b"x", None)


def test_nothing_under_a_prefix_is_said(bucket: str) -> None:
    store = open_store(f"s3://{bucket}/emptiness", value="data.uri")

    with pytest.raises(StorageError, match=r"^data\.uri: s3://refusals/emptiness has no a\.gz \(it holds nothing\)"):
        store.read("a.gz")


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_newline_behind_a_key_is_said_without_the_key(name: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"{os.environ.get(name, 'token')}\n")

    with pytest.raises(StorageError, match=rf"^s3\.secretName: {name} of this Secret begins or ends with") as refused:
        open_store(f"s3://{bucket}/x", value="data.uri").read("a")

    assert os.environ[name].strip() not in str(refused.value)


@pytest.mark.parametrize("verb", ["read", "write", "list"])
def test_missing_bucket_is_named(verb: str, s3_server: Any) -> None:
    with pytest.raises(
        StorageError, match=rf'^data\.uri: bucket "digitz" does not exist at {s3_server.endpoint}; create'
    ):
        _use(open_store("s3://digitz/x", value="data.uri"), verb)


@pytest.mark.parametrize(
    ("variable", "code", "wrong"),
    [
        pytest.param(
            "AWS_ACCESS_KEY_ID",
            "InvalidAccessKeyId|XAdminUserNotFound",
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            id="key",
        ),
        pytest.param("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY", id="secret"),
    ],
)
def test_wrong_keys_are_told_from_a_missing_bucket(
    variable: str, code: str, wrong: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "wrong")

    words = rf"refuses the keys of this Secret \(({code})\); correct its {wrong}$"
    with pytest.raises(StorageError, match=rf"^s3\.secretName: http.* {words}"):
        open_store(f"s3://{bucket}", value="data.uri").read("a.gz")


def test_denied_access_names_the_place_and_the_verb() -> None:
    # Use a stub, because the real S3 server never denies anything to its root user.
    store = open_store("s3://theirs/x", value="output.uri")
    assert isinstance(store, S3Store)
    with Stubber(store.client) as stub:
        stub.add_client_error("put_object", "AccessDenied", http_status_code=403)

        with pytest.raises(
            StorageError, match=r"^output\.uri: the keys of s3\.secretName have no permission to write s3://theirs"
        ):
            store.write("log.txt", b"")


def test_missing_keys_are_said(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    with pytest.raises(StorageError, match=r"^s3\.secretName: no S3 keys are set, and s3://refusals needs them"):
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
    # A failed DNS lookup may be temporary, but an invalid URL stays invalid.
    assert raised.value.exit_code == (2 if "no URL" in message else 1)


@pytest.fixture
def silent_endpoint() -> Iterator[str]:
    """The URL of a server that accepts connections but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_silent_endpoint_is_given_up_within_a_minute(silent_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", silent_endpoint)
    monkeypatch.setattr("distrain_trainer.storage.s3.READ_TIMEOUT", 0.5)
    started = time.monotonic()

    with pytest.raises(StorageError, match=r"^s3\.endpoint: http://127.* cannot be reached \(.*timed out"):
        open_store("s3://datasets/digits", value="data.uri").read("a.gz")

    # boto3 makes three attempts, and its pauses take at most 10 s in total. After other failures, the trainer would
    # retry for ten minutes.
    assert time.monotonic() - started < 300


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


@pytest.mark.parametrize("insecure", ["0", "1"])
def test_server_without_tls_is_not_called_untrusted(
    insecure: str, s3_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = s3_server.endpoint.replace("http://", "https://")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setenv("DISTRAIN_S3_INSECURE_TLS", insecure)

    with pytest.raises(StorageError) as refused:
        open_store("s3://bucket/x", value="data.uri").read("a.gz")

    advice = f"write {s3_server.endpoint}, or the port that speaks TLS"
    assert str(refused.value) == f"s3.endpoint: {endpoint} answers without TLS; {advice}"


def _use(store: Store, verb: str) -> None:
    uses: dict[str, Callable[[], object]] = {
        "read": lambda: store.read("a.gz"),
        "write": lambda: store.write("a.gz", b""),
        "list": lambda: list(store.names()),
    }
    uses[verb]()


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
