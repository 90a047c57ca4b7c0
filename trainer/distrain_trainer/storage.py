"""Read and write the files of a run, in a folder or in S3, with every failure told in one line.

An S3 failure surfaces within a minute.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from distrain_trainer.errors import ConflictError, StorageError, UnreachableError, rank_from_environment

T = TypeVar("T")

# Three attempts of this, in seconds, with the pauses between them, stay under a minute.
ATTEMPTS = 3
CONNECT_TIMEOUT = 5
READ_TIMEOUT = 15
# How long a run that begins waits for a server that is away, or starts itself.
SECONDS_TO_BE_REACHED = 60.0
SECONDS_BETWEEN_TRIES = 2.0
READS_OF_A_TAG = 5
# As many as threads that read at once.
CONNECTIONS = 32

KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# S3's codes, and versitygw's own for a key that it does not know.
WRONG_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "XAdminUserNotFound")
# What S3 says of a conditional write whose condition does not hold, or that met another one.
CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
# S3 takes no more than 5 GB at once; what is larger than this is sent in parts.
LARGE = 256 * 1024**2


class Store(Protocol):
    """A place for files. `uri` says where, `value` which value named it."""

    @property
    def uri(self) -> str: ...

    @property
    def value(self) -> str: ...

    def path(self, name: str) -> str:
        """Return where a file lies, to tell people."""

    def names(self) -> Iterator[str]:
        """Yield every file below, by its path from here. Raises StorageError when they cannot be listed."""

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return a file's content, or the part of it that there is from a byte on. Raises StorageError without it."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all. Raises StorageError when it cannot be written."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is there. Raises StorageError when it cannot be."""

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return a file's content and the tag of this very content, for write_if; None without such a file."""

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        """Write a file only if it still has the tag, or with None if it is not there, and return its new tag.

        Raises ConflictError when another process was first, StorageError when it cannot be written at all.
        """


def open_store(uri: str, *, value: str) -> Store:
    """Return the store at s3://bucket/prefix or at an absolute folder; nothing is read or written yet."""
    if uri.startswith("s3://"):
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return S3Store(uri=uri, value=value, bucket=bucket, prefix=prefix.strip("/"), client=_s3_client(uri, value))
    return FolderStore(uri=uri, value=value)


def once_reachable(ask: Callable[[], T]) -> T:
    """Return what `ask` returns, and ask again for a while where no answer comes. Raises StorageError."""
    begun, is_said = time.monotonic(), False
    while True:
        try:
            return ask()
        except UnreachableError as error:
            if time.monotonic() - begun > SECONDS_TO_BE_REACHED:
                raise
            if not is_said and rank_from_environment() == 0:
                print(f"{error}; trying again for {SECONDS_TO_BE_REACHED:.0f} s", file=sys.stderr, flush=True)
            is_said = True
            time.sleep(SECONDS_BETWEEN_TRIES)


@dataclass(frozen=True)
class FolderStore:
    uri: str
    value: str

    def path(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def names(self) -> Iterator[str]:
        # Data sets are often put together of links.
        for folder, _, files in os.walk(self.uri, followlinks=True, onerror=self._cannot_list):
            below = os.path.relpath(folder, self.uri)
            yield from (file if below == "." else f"{below}/{file}" for file in files)

    def _cannot_list(self, error: OSError) -> None:
        raise StorageError(
            f"{self.value}: {error.filename} cannot be listed: {error.strerror}; "
            f"mount the volume there, or correct {self.value}"
        )

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        path = Path(self.uri) / name
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(-1 if length is None else length)
        except FileNotFoundError:
            held = sorted(entry.name for entry in Path(self.uri).glob("*"))
            raise StorageError(_absent(self, name, held)) from None
        except OSError as error:
            raise StorageError(f"{self.value}: {path} cannot be read: {error.strerror}") from None

    def write(self, name: str, content: bytes) -> None:
        path = Path(self.uri) / name
        unfinished = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            # On a disk that is full it would keep it so.
            with suppress(OSError):
                unfinished.unlink()
            raise self._cannot_write(path, error) from None

    def _cannot_write(self, path: Path, error: OSError) -> StorageError:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some of it" if is_full else f"mount a volume that user {os.getuid()} may write"
        return StorageError(f"{self.value}: {path} cannot be written: {error.strerror}; {remedy}")

    def delete(self, name: str) -> None:
        path = Path(self.uri) / name
        try:
            path.unlink(missing_ok=True)
            # The last file takes its folder along, as in S3.
            if path.parent != Path(self.uri) and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                raise StorageError(f"{self.value}: {path} cannot be deleted: {error.strerror}") from None

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        if not (Path(self.uri) / name).exists():
            return None
        content = self.read(name)
        return content, _tag(content)

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        with self._locked():
            held = self.read_tagged(name)
            if (held[1] if held else None) != tag:
                raise ConflictError(f"{self.value}: another process has changed {self.path(name)}")
            self.write(name, content)
        return _tag(content)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = Path(self.uri) / ".lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("w")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise self._cannot_write(path, error) from None
        with file:
            yield


@dataclass(frozen=True)
class S3Store:
    uri: str
    value: str
    bucket: str
    prefix: str
    client: Any

    def path(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}"

    def names(self) -> Iterator[str]:
        with self._errors("list"):
            pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self._key(""))
            for page in pages:
                keys = (entry["Key"].removeprefix(self._key("")) for entry in page.get("Contents", []))
                # What some consoles make for an empty folder.
                yield from (key for key in keys if key and not key.endswith("/"))

    def read(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        from botocore.exceptions import ClientError

        span = {} if not start and length is None else {"Range": f"bytes={start}-{_last_byte(start, length)}"}
        with self._errors("read"):
            try:
                content: bytes = self.client.get_object(Bucket=self.bucket, Key=self._key(name), **span)["Body"].read()
            except ClientError as error:
                if error.response["Error"]["Code"] == "InvalidRange":
                    return b""
                if error.response["Error"]["Code"] != "NoSuchKey":
                    raise
                raise StorageError(_absent(self, name, self._held())) from None
        return content

    def write(self, name: str, content: bytes) -> None:
        with self._errors("write"):
            if len(content) > LARGE:
                self.client.upload_fileobj(io.BytesIO(content), self.bucket, self._key(name))
            else:
                self.client.put_object(Bucket=self.bucket, Key=self._key(name), Body=content)

    def delete(self, name: str) -> None:
        with self._errors("delete"):
            self.client.delete_object(Bucket=self.bucket, Key=self._key(name))

    def read_tagged(self, name: str) -> tuple[bytes, str] | None:
        held = self._tagged(name)
        for _ in range(READS_OF_A_TAG - 1):
            # A server that keeps tags beside its files may answer with one write's tag and another one's content. It
            # is the content's MD5 sum with most of them; where it never is, there is nothing to be seen.
            if held is None or held[1].strip('"') == hashlib.md5(held[0], usedforsecurity=False).hexdigest():
                break
            held = self._tagged(name)
        return held

    def _tagged(self, name: str) -> tuple[bytes, str] | None:
        from botocore.exceptions import ClientError

        with self._errors("read"):
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=self._key(name))
                return answer["Body"].read(), answer["ETag"]
            except ClientError as error:
                if error.response["Error"]["Code"] != "NoSuchKey":
                    raise
                return None

    def write_if(self, name: str, content: bytes, tag: str | None) -> str:
        from botocore.exceptions import ClientError

        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        with self._errors("write"):
            try:
                answer = self.client.put_object(Bucket=self.bucket, Key=self._key(name), Body=content, **condition)
                return str(answer["ETag"])
            except ClientError as error:
                if error.response["Error"]["Code"] not in (*CONFLICTS, "NoSuchKey"):
                    raise
        # Perhaps with ourselves: an answer was lost, and boto3 has sent it again.
        held = self.read_tagged(name)
        if held is None or held[0] != content:
            raise ConflictError(f"{self.value}: another process has changed {self.path(name)}")
        return held[1]

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _held(self) -> list[str]:
        listing = self.client.list_objects_v2(Bucket=self.bucket, Prefix=self._key(""), MaxKeys=20)
        return [entry["Key"].removeprefix(self._key("")) for entry in listing.get("Contents", [])]

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            raise StorageError(self._refused(verb, error.response["Error"])) from None
        except BotoCoreError as error:
            raise self._failed(verb, error) from None

    def _refused(self, verb: str, error: dict[str, str]) -> str:
        """Say what the server's answer means for the one who wrote the values."""
        code, where = error.get("Code", ""), self.client.meta.endpoint_url
        if code == "NoSuchBucket":
            return f'{self.value}: bucket "{self.bucket}" does not exist at {where}; create it or correct {self.value}'
        if code in WRONG_KEYS:
            return f"s3.secretName: {where} refuses the keys of this Secret ({code}); correct its {KEYS}"
        if code in ("AccessDenied", "Forbidden", "403"):
            return (
                f"{self.value}: the keys of s3.secretName may not {verb} {self.uri} at {where} ({code}); "
                f"grant them that, or correct {self.value}"
            )
        return f"{self.value}: {where} does not {verb} {self.uri}: {code} {error.get('Message', '')}"

    def _failed(self, verb: str, error: Exception) -> StorageError:
        """Say why no answer came at all."""
        from botocore import exceptions

        where = self.client.meta.endpoint_url
        if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
            return StorageError(
                f"s3.secretName: no S3 keys are set, and {self.uri} needs them; name a Secret with {KEYS}"
            )
        if isinstance(error, exceptions.SSLError):
            return StorageError(
                f"s3.endpoint: the certificate of {where} is not trusted; correct it, or set s3.insecureTLS=true"
            )
        if isinstance(error, (exceptions.ConnectionError, exceptions.HTTPClientError)):
            return UnreachableError(
                f"s3.endpoint: {where} cannot be reached ({_innermost(error)}); correct it, or start the server"
            )
        return StorageError(f"{self.value}: cannot {verb} {self.uri}: {error}")


def _s3_client(uri: str, value: str) -> Any:
    import boto3
    import urllib3
    from botocore.config import Config

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or None
    insecure = os.environ.get("DISTRAIN_S3_INSECURE_TLS") == "1"
    if insecure:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        max_pool_connections=CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # The checksums that boto3 adds of itself are refused by many S3 servers that are not Amazon's.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    try:
        return boto3.Session().client(
            "s3",
            endpoint_url=endpoint,
            # boto3 itself reads AWS_DEFAULT_REGION alone.
            region_name=os.environ.get("AWS_REGION") or "us-east-1",
            verify=not insecure,
            config=config,
        )
    except ValueError:
        raise StorageError(
            f"s3.endpoint: {endpoint!r} is no URL, and {value} {uri} needs one; give one such as https://s3.example.org"
        ) from None


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _sync_folder(folder: Path) -> None:
    """Have the names of a folder's files outlast a crash of the machine, as their content does."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _last_byte(start: int, length: int | None) -> int | str:
    return "" if length is None else start + length - 1


def _absent(store: Store, name: str, held: list[str]) -> str:
    shown = ", ".join(held[:5]) + (", ..." if len(held) > 5 else "") if held else "nothing"
    return f"{store.value}: {store.uri} has no {name} (it holds {shown}); put the file there or correct {store.value}"


def _innermost(error: BaseException) -> str:
    """Return the reason under botocore's and urllib3's wrapping, such as "Connection refused"."""
    reason: Any = error
    while isinstance(inner := _wrapped(reason), BaseException):
        reason = inner
    return str(getattr(reason, "strerror", None) or str(reason).rpartition(": ")[2])


def _wrapped(error: Any) -> Any:
    keywords = getattr(error, "kwargs", {})
    return keywords.get("error") or getattr(error, "reason", None) or error.__cause__ or error.__context__
