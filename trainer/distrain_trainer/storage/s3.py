"""Store files in S3."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from distrain_trainer.errors import ConflictError, StorageError
from distrain_trainer.storage.body import Body, BrokenError
from distrain_trainer.storage.retry import Retry
from distrain_trainer.storage.s3_errors import failed, is_of_missing_file, refused, unavailable
from distrain_trainer.storage.s3_listing import all_keys, keep_keys_alone, pages
from distrain_trainer.storage.store import absent
from distrain_trainer.storage.view import View

T = TypeVar("T")

# The number of attempts that boto3 makes, and its timeouts in seconds. Three attempts, including the pauses between
# them, take less than a minute.
ATTEMPTS = 3
CONNECT_TIMEOUT = 5
READ_TIMEOUT = 15
READS_OF_A_TAG = 5
# The size of the connection pool: at least the number of threads that read at the same time.
CONNECTIONS = 32
# S3 answers a conditional write with one of these codes if the condition is false, or if another write happened at the
# same time.
CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
# Files above this size in bytes are uploaded in parts, because S3 accepts at most 5 GB in one request.
LARGE = 256 * 1024**2


@dataclass(frozen=True)
class S3Store:
    uri: str
    value: str
    bucket: str
    prefix: str
    client: Any
    retry: Retry = field(default_factory=lambda: Retry(seconds=0))

    def __reduce__(self) -> tuple[Any, ...]:
        """Tell pickle how to create this store in another process.

        The other process opens its own connection, with a default Retry.
        """
        return _reopen, (self.uri, self.value, self.bucket, self.prefix)

    def path(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def names(self, folders: str = ".*") -> Iterator[str]:
        return self._names_of(chain.from_iterable(pages(self, self._key(""))))

    def all_names(self) -> list[str]:
        return [*self._names_of(all_keys(self, self._key("")))]

    def _names_of(self, keys: Iterable[str]) -> Iterator[str]:
        names = (key.removeprefix(self._key("")) for key in keys)
        # For an empty folder, some S3 consoles create an object whose key ends in "/".
        return (name for name in names if name and not name.endswith("/"))

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        found = self.ask("read", lambda: self._found(name, start, length) or self._held())
        if isinstance(found, Body):
            return bytes(found.content)
        raise absent(self, name, found)

    def read_into(self, name: str, place: memoryview, *, start: int = 0) -> int:
        return self.read_tagged_into(name, place, start=start)[0]

    def read_tagged_into(self, name: str, place: memoryview, *, start: int = 0) -> tuple[int, str]:
        found = self.ask("read", lambda: self._found(name, start, len(place), place) or self._held())
        if not isinstance(found, Body):
            raise absent(self, name, found)
        if found.object_size is not None:
            return found.object_size, found.tag
        return start + found.held if 0 < found.held < len(place) else self.stat(name)[0], found.tag

    def stat(self, name: str) -> tuple[int, str]:
        told = self.ask("read", lambda: self._head(name))
        return told["ContentLength"], told.get("ETag", "")

    def write(self, name: str, content: bytes | memoryview) -> None:
        self.ask("write", lambda: self._put(name, content))

    def extend(self, name: str, content: bytes, held: int) -> None:
        self.write(name, content)

    def delete(self, name: str) -> None:
        # Do not retry a failed deletion: nobody needs the file any more.
        self._told("delete", lambda: self.client.delete_object(Bucket=self.bucket, Key=self._key(name)))

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        held = self._tagged(name)
        for _ in range(READS_OF_A_TAG - 1):
            # A server that stores tags separately from contents may return the tag of one write with the content of
            # another write. On most servers the tag is the content's MD5 sum, so a different MD5 sum shows this error.
            # On other servers the loop ends after READS_OF_A_TAG reads.
            if held is None or held[1].strip('"') == hashlib.md5(held[0], usedforsecurity=False).hexdigest():
                break
            held = self._tagged(name)
        return held

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        new = self.ask("write", lambda: self._put_if(name, content, tag))
        if new is not None:
            return new
        # The file may have been changed by this call itself: if the first response was lost, boto3 has sent the request
        # again.
        held = self.read_tagged(name)
        if held is None or held[0] != content:
            raise ConflictError(f"{self.value}: another process has changed {self.path(name)}")
        return held[1]

    def _tagged(self, name: str) -> tuple[bytes, str] | None:
        body = self.ask("read", lambda: self._found(name))
        return (bytes(body.content), body.tag) if body else None

    def _head(self, name: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        try:
            told: dict[str, Any] = self.client.head_object(Bucket=self.bucket, Key=self._key(name))
        except ClientError as error:
            if is_of_missing_file(error.response) and not self._is_listed(name, error.response):
                raise absent(self, name, self._held()) from None
            raise
        return told

    def _found(
        self, name: str, start: int = 0, length: int | None = None, place: memoryview | None = None
    ) -> Body | None:
        """Return the content of a file.

        The content is empty if `start` is beyond the end of the file. Return None if the file does not exist.
        """
        from botocore.exceptions import ClientError

        body = Body(partial(self.client.get_object, Bucket=self.bucket, Key=self._key(name)), start, length, place)
        try:
            body.read()
        except ClientError as error:
            if is_of_missing_file(error.response) and not self._is_listed(name, error.response):
                return None
            if error.response["Error"]["Code"] != "InvalidRange":
                raise
        return body

    def _is_listed(self, name: str, refusal: dict[str, Any]) -> bool:
        """After a 404, check whether the file exists.

        While a server restarts, the ingress in front of it answers 404, but without S3's error code.
        """
        if refusal["Error"]["Code"] == "NoSuchKey":
            return False
        key = self._key(name)
        listing = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1)
        return any(entry["Key"] == key for entry in listing.get("Contents", []))

    def _put(self, name: str, content: bytes | memoryview) -> None:
        if len(content) > LARGE:
            self.client.upload_fileobj(View(memoryview(content)), self.bucket, self._key(name))
        else:
            body = View(content) if isinstance(content, memoryview) else content
            self.client.put_object(Bucket=self.bucket, Key=self._key(name), Body=body)

    def _put_if(self, name: str, content: bytes, tag: str | None) -> str | None:
        """Return the new tag.

        Return None if it is unknown whether the file was written; the caller must then read the file.

        The result is None if the condition is false (the tag differs, or the file exists although `tag` is None), and
        also if the response contains no tag.
        """
        from botocore.exceptions import ClientError

        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        put = partial(self.client.put_object, Bucket=self.bucket, Key=self._key(name), Body=content)
        try:
            new: str | None = put(**condition).get("ETag")
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code == "NotImplemented":
                # The server answers that it does not support conditional writes. Treat it like a server that ignores
                # the conditions.
                new = put().get("ETag")
            elif code in CONFLICTS or (tag is not None and is_of_missing_file(error.response)):
                new = None
            else:
                raise
        return new

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _held(self) -> list[str]:
        listing = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self._key(""), MaxKeys=20)
        return [entry["Key"].removeprefix(self._key("")) for entry in listing.get("Contents", [])]

    def ask(self, verb: str, ask: Callable[[], T]) -> T:
        """Call the method `ask` with retries, and return its result. Raises StorageError."""
        return self.retry.call(verb, lambda: self._told(verb, ask))

    def _told(self, verb: str, ask: Callable[[], T]) -> T:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask()
        except ClientError as error:
            raise refused(self, verb, error.response) from None
        except BotoCoreError as error:
            raise failed(self, verb, error) from None
        except BrokenError as error:
            raise unavailable(self, str(error)) from None


def _reopen(uri: str, value: str, bucket: str, prefix: str) -> S3Store:
    return S3Store(uri, value, bucket, prefix, connect(uri, value), Retry())


def connect(uri: str, value: str) -> Any:
    """Return a boto3 client for the S3 server that the environment variables name. This sends no request yet."""
    import boto3
    import urllib3
    from botocore.config import Config

    _refuse_keys_with_spaces()
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or None
    insecure = os.environ.get("DISTRAIN_S3_INSECURE_TLS") == "1"
    style = os.environ.get("DISTRAIN_S3_ADDRESSING_STYLE")
    if insecure:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        max_pool_connections=CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # Many S3 servers other than Amazon's refuse the checksums that boto3 adds to requests by default.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": style} if style else None,
    )
    try:
        client = boto3.Session().client(
            "s3",
            endpoint_url=endpoint,
            # boto3 itself reads AWS_DEFAULT_REGION, but not AWS_REGION.
            region_name=os.environ.get("AWS_REGION") or "us-east-1",
            # Do not pass True: botocore reads AWS_CA_BUNDLE only if `verify` is None.
            verify=False if insecure else None,
            config=config,
        )
    except ValueError:
        raise StorageError(
            f"s3.endpoint: {endpoint!r} is no URL, and {value} {uri} needs one; give one such as https://s3.example.org"
        ) from None
    client.meta.events.register("before-parse.s3.ListObjectsV2", keep_keys_alone)
    return client


def _refuse_keys_with_spaces() -> None:
    """Raise StorageError if a key begins or ends with white space, such as the newline that `echo` adds.

    With such a key every request would fail, and botocore's error message would show a header that contains the key.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        key = os.environ.get(name, "")
        if key != key.strip():
            raise StorageError(
                f"s3.secretName: {name} of this Secret begins or ends with a space or newline; make the Secret again "
                "without it: `echo` adds a newline, `echo -n` none"
            )
