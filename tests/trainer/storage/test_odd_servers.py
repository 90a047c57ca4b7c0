"""Test S3 servers that lack a feature: the trainer either works without it, or fails immediately with one line."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from distrain_trainer.checkpoint import lease as leases
from distrain_trainer.checkpoint.head import Head, Holder
from distrain_trainer.errors import StorageError, UnavailableError
from distrain_trainer.storage import Retry, S3Store
from distrain_trainer.storage.s3 import connect
from tests.trainer.fixtures.unsteady_s3 import Clock, tag_of

A, B = (Holder(f"run-{name}", (f"pod-{name}",)) for name in "ab")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("distrain_trainer.storage.retry.time", clock := Clock())
    return clock


def store_of(client: object, value: str = "checkpoint.uri") -> S3Store:
    return S3Store("s3://b/run", value, "b", "run", client, Retry())


def refusal(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "any")


class Bucket:
    """A client of a server that answers 501 to every conditional write."""

    meta = SimpleNamespace(endpoint_url="http://s3")

    def __init__(self, unknown: tuple[str, ...]) -> None:
        self.unknown = unknown
        self.objects: dict[str, bytes] = {}

    def put_object(self, **asked: Any) -> dict[str, Any]:
        if any(name in self.unknown for name in asked):
            raise refusal("NotImplemented", 501)
        if asked.get("IfNoneMatch") == "*" and asked["Key"] in self.objects:
            raise refusal("PreconditionFailed", 412)
        self.objects[asked["Key"]] = asked["Body"]
        return {"ETag": tag_of(asked["Body"])}

    def get_object(self, **asked: str) -> dict[str, Any]:
        content = self.objects.get(asked["Key"])
        if content is None:
            raise refusal("NoSuchKey", 404)
        return {"Body": io.BytesIO(content), "ETag": tag_of(content), "ContentLength": len(content)}

    def list_objects_v2(self, **asked: str) -> dict[str, Any]:
        return {"Contents": [{"Key": key} for key in sorted(self.objects)]}

    def delete_object(self, **asked: str) -> None:
        self.objects.pop(asked["Key"], None)


@pytest.mark.parametrize("unknown", [("IfMatch", "IfNoneMatch"), ("IfMatch",)], ids=["neither", "none-match-alone"])
def test_server_without_conditional_writes_serves_one_job_and_is_refused_to_another(
    unknown: tuple[str, ...], clock: Clock
) -> None:
    store, said = store_of(Bucket(unknown)), list[str]()

    def take(holder: Holder) -> leases.Lease | None:
        return leases.acquire(store, holder, resumes=True, lacks=lambda _: "", say=said.append)

    lease = take(A)
    assert lease
    lease.change(checkpoint="1-10")

    assert Head.from_json(store.read("HEAD")).checkpoint == "1-10"
    with pytest.raises(StorageError, match=r"is held by job run-a, and the store ignores If-Match"):
        take(B)
    apart = "ignores If-Match, so it cannot keep jobs apart: never let two jobs use it at once"
    assert said[0] == f"checkpoint: s3://b/run {apart}"
    assert not clock.now


@pytest.mark.parametrize("status", [501, 505])
def test_answer_that_stays_the_same_for_ever_is_not_waited_for(status: int, clock: Clock) -> None:
    def put_object(**_: object) -> None:
        raise refusal("NotImplemented", status)

    store = store_of(SimpleNamespace(put_object=put_object, meta=Bucket.meta))

    with pytest.raises(
        StorageError, match=r"^checkpoint\.uri: http://s3 does not write s3://b/run: NotImplemented"
    ) as at:
        store.write("log.txt", b"")

    assert not isinstance(at.value, UnavailableError)
    assert not clock.now


def without_code(asked: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of the client so that its 404 errors have no S3 error code, like an error page of a proxy."""

    def ask(**given: Any) -> Any:
        try:
            return asked(**given)
        except ClientError as error:
            if error.response["Error"]["Code"] == "NoSuchKey":
                raise refusal("404", 404) from None
            raise

    return ask


@pytest.mark.parametrize(
    "lacks",
    [
        pytest.param({"get_object": without_code}, id="code-of-404"),
        pytest.param({"put_object": lambda put: lambda **given: put(**given) and {}}, id="tag-of-put"),
    ],
)
def test_run_begins_on_a_server_whose_answers_lack_a_part(lacks: dict[str, Any], clock: Clock) -> None:
    bucket = Bucket(())
    for name, change in lacks.items():
        setattr(bucket, name, change(getattr(bucket, name)))

    lease = leases.acquire(store_of(bucket), A, resumes=True, lacks=lambda _: "", say=print)
    assert lease
    lease.change(checkpoint="1-10")

    assert Head.from_json(bucket.objects["run/HEAD"]).checkpoint == "1-10"
    assert not clock.now


def test_file_that_is_listed_is_not_taken_for_missing_after_a_404_without_code(clock: Clock) -> None:
    bucket = Bucket(())
    store = replace(store_of(bucket), retry=Retry(allowed=("read",)))
    store.write("HEAD", b"1")

    def get_object(**asked: str) -> dict[str, Any]:
        if clock.now < 30:
            raise refusal("404", 404)
        return Bucket.get_object(bucket, **asked)

    setattr(bucket, "get_object", get_object)  # noqa: B010

    assert store.read_tagged("HEAD") == (b"1", tag_of(b"1"))
    assert clock.now >= 30


def test_file_is_not_taken_for_missing_when_the_bucket_is(clock: Clock) -> None:
    def get_object(**_: object) -> None:
        raise refusal("NoSuchBucket", 404)

    store = store_of(SimpleNamespace(get_object=get_object, meta=Bucket.meta))

    with pytest.raises(StorageError, match=r'^checkpoint\.uri: bucket "b" does not exist at http://s3; create it'):
        store.read_tagged("HEAD")


def lister(heeds: tuple[str, ...], keys: list[str], *, token_lasts: bool = True) -> Callable[..., dict[str, Any]]:
    """Return a fake list_objects_v2.

    Its server puts two keys on a page. To find the next page, it uses only those request parameters that are in
    `heeds`.
    """

    def list_objects(**asked: str) -> dict[str, Any]:
        start = 0
        if "ContinuationToken" in asked and not token_lasts:
            raise refusal("InvalidArgument", 400)
        if "ContinuationToken" in asked and "ContinuationToken" in heeds:
            start = int(asked["ContinuationToken"])
        elif "StartAfter" in asked and "StartAfter" in heeds:
            start = len([key for key in keys if key <= asked["StartAfter"]])
        page = keys[start : start + 2]
        token = {"NextContinuationToken": str(start + 2)} if "ContinuationToken" in heeds else {}
        return {"Contents": [{"Key": key} for key in page], "IsTruncated": start + 2 < len(keys), **token}

    return list_objects


KEYS = [f"run/{letter}" for letter in "abcde"]


@pytest.mark.parametrize(
    ("heeds", "token_lasts"),
    [
        pytest.param(("ContinuationToken",), True, id="token-alone"),
        pytest.param(("StartAfter",), True, id="name-alone"),
        pytest.param(("ContinuationToken", "StartAfter"), False, id="an-outage-outlasts-the-token"),
    ],
)
def test_list_goes_on_by_what_the_server_heeds(heeds: tuple[str, ...], token_lasts: bool) -> None:
    store = store_of(SimpleNamespace(list_objects_v2=lister(heeds, KEYS, token_lasts=token_lasts)))

    # If the listing never ended, reading all of it would hang the test. So read at most nine names.
    assert list(itertools.islice(store.names(), 9)) == [*"abcde"]


def test_keys_in_the_servers_own_order_are_all_listed() -> None:
    shuffled = [KEYS[place] for place in (3, 1, 4, 0, 2)]
    store = store_of(SimpleNamespace(list_objects_v2=lister(("ContinuationToken",), shuffled)))

    assert list(itertools.islice(store.names(), 9)) == [*"dbeac"]


@pytest.mark.parametrize(
    "list_objects",
    [
        pytest.param(lister((), KEYS), id="heeds-neither"),
        pytest.param(
            lambda **asked: {**lister((), KEYS)(**asked), "NextContinuationToken": "2"}, id="ignores-its-own-token"
        ),
        pytest.param(lister(("ContinuationToken",), KEYS, token_lasts=False), id="token-lost-and-name-ignored"),
    ],
)
def test_server_whose_list_comes_again_and_again_is_named(list_objects: Any, clock: Clock) -> None:
    store = store_of(SimpleNamespace(list_objects_v2=list_objects, meta=Bucket.meta), value="data.uri")

    with pytest.raises(
        StorageError, match=r"^data\.uri: http://s3 lists the same keys of s3://b/run again .*; use"
    ) as at:
        list(itertools.islice(store.names(), 9))

    assert at.value.exit_code == 2
    assert not clock.now


def by_folder(heeds: tuple[str, ...], keys: list[str]) -> Callable[..., dict[str, Any]]:
    """Return a fake list_objects_v2. Its server puts two entries on a page.

    The server ignores Delimiter and ContinuationToken unless they are in `heeds`.
    """

    def list_objects(**asked: str) -> dict[str, Any]:
        prefix = asked["Prefix"]
        below = [key for key in keys if key.startswith(prefix)]
        folders: list[str] = []
        if "Delimiter" in asked and "Delimiter" in heeds:
            folders = sorted(
                {prefix + key[len(prefix) :].split("/")[0] + "/" for key in below if "/" in key[len(prefix) :]}
            )
            below = [key for key in below if "/" not in key[len(prefix) :]]
        entries = below + folders
        start = int(asked.get("ContinuationToken", 0)) if "ContinuationToken" in heeds else 0
        if "StartAfter" in asked:
            start = len([entry for entry in entries if entry <= asked["StartAfter"]])
        page = entries[start : start + 2]
        return {
            "Contents": [{"Key": entry} for entry in page if entry in below],
            "CommonPrefixes": [{"Prefix": entry} for entry in page if entry in folders],
            "IsTruncated": start + 2 < len(entries),
            **({"NextContinuationToken": str(start + 2)} if "ContinuationToken" in heeds else {}),
        }

    return list_objects


NESTED = [
    *(f"run/train/{folder}/{number}.png" for folder in "abcde" for number in range(5)),
    *(f"run/val/{folder}/{number}.png" for folder in "abc" for number in range(3)),
    "run/train/a/deep/er/1.png",
    "run/train/readme",
    "run/other/1.txt",
    "run/sizes.json",
]


@pytest.mark.parametrize(
    "heeds",
    [
        pytest.param(("Delimiter", "ContinuationToken"), id="as-s3-does"),
        pytest.param(("ContinuationToken",), id="no-delimiter"),
        pytest.param(("Delimiter",), id="no-token"),
        pytest.param((), id="neither"),
    ],
)
def test_all_names_are_listed_by_folder_or_else_page_by_page(heeds: tuple[str, ...]) -> None:
    store = store_of(SimpleNamespace(list_objects_v2=by_folder(heeds, sorted(NESTED)), meta=Bucket.meta))

    assert sorted(store.all_names()) == sorted(key.removeprefix("run/") for key in NESTED)


def test_folders_are_listed_at_once() -> None:
    # The folders of eight classes, and one more folder, which is listed with all that is in it.
    folders = {f"run/{name}/" for name in ("train/a", "train/b", "train/c", "train/d", "train/e")}
    folders |= {"run/val/a/", "run/val/b/", "run/val/c/", "run/other/"}
    answer, all_are_asked_for = by_folder(("Delimiter", "ContinuationToken"), sorted(NESTED)), threading.Barrier(9)

    def list_objects(**asked: str) -> dict[str, Any]:
        if asked["Prefix"] in folders and "ContinuationToken" not in asked:
            all_are_asked_for.wait(timeout=60)
        return answer(**asked)

    store = store_of(SimpleNamespace(list_objects_v2=list_objects))

    assert len(store.all_names()) == len(NESTED)


def test_refusal_to_list_is_told(clock: Clock) -> None:
    def list_objects(**_: str) -> dict[str, Any]:
        raise refusal("AccessDenied", 403)

    with pytest.raises(StorageError, match=r"^checkpoint\.uri: the keys of s3\.secretName have no permission to list"):
        store_of(SimpleNamespace(list_objects_v2=list_objects, meta=Bucket.meta)).all_names()


PAGE = b"""<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
<IsTruncated>true</IsTruncated><NextContinuationToken>next</NextContinuationToken>
<Contents><Key>a%26b&amp;c</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>
<Contents><Key>d/%C3%A4</Key><LastModified>nonsense</LastModified></Contents>
<CommonPrefixes><Prefix>e/</Prefix></CommonPrefixes></ListBucketResult>"""


@pytest.mark.parametrize("page", [PAGE, PAGE.replace(b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', b"")])
def test_keys_of_a_page_are_read_without_the_rest(page: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    client = connect("s3://b", "data.uri")
    client.meta.events.register(
        "before-send.s3.ListObjectsV2", lambda **_: AWSResponse("http://s3", 200, {}, Raw(page))
    )

    answer = client.list_objects_v2(Bucket="b", EncodingType="url")

    assert answer["Contents"] == [{"Key": "a%26b&c"}, {"Key": "d/%C3%A4"}]
    assert (answer["IsTruncated"], answer["NextContinuationToken"]) == (True, "next")
    assert answer["CommonPrefixes"] == [{"Prefix": "e/"}]


class Raw(io.BytesIO):
    """The body of an answer, with the same methods as in urllib3."""

    def stream(self, **_: object) -> list[bytes]:
        return [self.read()]
