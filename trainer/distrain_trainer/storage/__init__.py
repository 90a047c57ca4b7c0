"""Read and write a run's files in a folder or in S3. Failures raise StorageError with a one-line message."""

from __future__ import annotations

from distrain_trainer.storage.folder import FolderStore
from distrain_trainer.storage.retry import Retry
from distrain_trainer.storage.s3 import S3Store, connect
from distrain_trainer.storage.store import Store

__all__ = ["FolderStore", "Retry", "S3Store", "Store", "open_store"]


def open_store(uri: str, *, value: str, retry: Retry | None = None) -> Store:
    """Return the store at s3://bucket/prefix or at an absolute folder. Nothing is read or written yet.

    With `retry`, the store repeats a call while S3 does not answer. Without `retry`, the call raises UnavailableError
    within about a minute.
    """
    if uri.startswith("s3://"):
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return S3Store(uri, value, bucket, prefix.strip("/"), connect(uri, value), retry or Retry(seconds=0))
    return FolderStore(uri=uri, value=value)
