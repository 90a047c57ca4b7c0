"""Test that files are read and written in the same way in folders and on a real S3 server."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.stub import Stubber

from distrain_trainer.errors import ConflictError, MissingError, StorageError
from distrain_trainer.storage import S3Store, Store, open_store
from tests.trainer.fixtures.unsteady_s3 import tag_of

pytestmark = pytest.mark.usefixtures("s3_in_environment")


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


@pytest.mark.parametrize(
    ("start", "length", "part"),
    [
        pytest.param(0, 10, b"0123456789", id="whole"),
        pytest.param(2, 3, b"234", id="inside"),
        pytest.param(0, 12, b"0123456789", id="over-the-end-from-0"),
        pytest.param(8, 5, b"89", id="over-the-end"),
        pytest.param(10, 5, b"", id="at-the-end"),
    ],
)
def test_part_of_a_file_is_read_into_memory_and_the_file_tells_its_size(
    store: Store, start: int, length: int, part: bytes
) -> None:
    store.write("digits", b"0123456789")
    place = bytearray(b"." * length)

    assert store.read_into("digits", memoryview(place), start=start) == 10
    assert place == part.ljust(length, b".")


def test_bytes_come_with_the_tag_of_their_version(store: Store) -> None:
    store.write("digits", b"0123456789")
    before, place = store.stat("digits"), memoryview(bytearray(3))
    store.write("digits", b"9876543210+")

    assert store.read_tagged_into("digits", place, start=2) == store.stat("digits")
    assert (bytes(place), store.stat("digits")[0]) == (b"765", 11)
    assert store.stat("digits")[1] not in ("", before[1])


def test_file_that_is_not_there_cannot_be_read_into_memory(store: Store) -> None:
    store.write("digits", b"0123456789")

    with pytest.raises(MissingError, match=r"^output\.uri: .* has no letters \(it holds digits.*\); put the file"):
        store.read_into("letters", memoryview(bytearray(3)))
    with pytest.raises(MissingError, match=r"^output\.uri: .* has no letters \(it holds digits.*\); put the file"):
        store.stat("letters")


def test_file_has_a_size_and_a_tag_that_another_content_has_not(store: Store) -> None:
    store.write("digits", b"0123456789")
    first, again = store.stat("digits"), store.stat("digits")
    store.write("digits", b"9876543210")
    other = store.stat("digits")

    assert first == again
    assert (first[0], other[0]) == (10, 10)
    assert first[1] != other[1]


def test_files_are_listed_by_their_path_below(store: Store) -> None:
    for name in ("set/log.txt", "set/train/a/1.png", "set/train/a/2.png", "set-2/other.txt"):
        store.write(name, b"x")
    data = open_store(f"{store.uri.rstrip('/')}/set/", value="data.uri")

    assert sorted(data.names()) == sorted(data.all_names()) == ["log.txt", "train/a/1.png", "train/a/2.png"]
    assert data.path("log.txt") == f"{store.uri.rstrip('/')}/set/log.txt"


def test_file_is_extended_by_what_the_store_does_not_have(store: Store) -> None:
    store.extend("run/events", b"first", 0)

    store.extend("run/events", b"first, second", 5)

    assert store.read("run/events") == b"first, second"


def test_file_that_was_deleted_is_written_whole_again(store: Store) -> None:
    store.extend("events", b"first", 0)
    store.delete("events")

    store.extend("events", b"first, second", 5)

    assert store.read("events") == b"first, second"


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"^output\.uri: .*/file/events cannot be written: File exists; mount a"):
        open_store(str(tmp_path / "file"), value="output.uri").extend("events", b"first", 0)


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


@pytest.mark.parametrize(
    ("answers", "held"),
    [
        pytest.param([(b"1", tag_of(b"2")), (b"2", tag_of(b"2"))], (b"2", tag_of(b"2")), id="of-two-writes"),
        # An ETag need not be an MD5 sum. For example, the ETag of an encrypted object is not.
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

    # If the response to a request is lost, boto3 sends the request again.
    assert store.write_if("HEAD", b"mine", None)


def test_linked_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.png").touch()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").symlink_to(tmp_path / "elsewhere")

    assert list(open_store(str(tmp_path / "data"), value="data.uri").names()) == ["a/1.png"]


@pytest.mark.parametrize("target", [".", "..", "../..", "../b"], ids=["itself", "the-data", "above", "each-other"])
def test_link_to_a_folder_above_is_not_followed(tmp_path: Path, target: str) -> None:
    data = tmp_path / "data"
    for name in ("a", "b"):
        (data / name).mkdir(parents=True)
        (data / name / "1.png").touch()
    (data / "a" / "link").symlink_to(target)
    (data / "b" / "link").symlink_to("../a")

    names = sorted(open_store(str(data), value="data.uri").names())

    through_links = ["a/link/1.png"] if target == "../b" else []
    assert names == ["a/1.png", *through_links, "b/1.png", "b/link/1.png"]


def test_marker_of_an_empty_folder_is_no_file() -> None:
    # Use a stub, because the real S3 server stores such keys as folders.
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
    # Use a stub: the real S3 server stores keys as file paths, in which a double slash means the same as a single one.
    store = open_store(uri, value="output.uri")
    assert isinstance(store, S3Store)
    with Stubber(store.client) as stub:
        stub.add_response("put_object", {}, {"Bucket": "b", "Key": key, "Body": b"x"})

        store.write("log.txt", b"x")

        stub.assert_no_pending_responses()
