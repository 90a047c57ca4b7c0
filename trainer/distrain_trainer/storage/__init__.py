"""Read and write a run's files in a folder or in S3. A failure raises StorageError with a message of one line."""

from __future__ import annotations

from distrain_trainer.storage.folder import FolderStore
from distrain_trainer.storage.retry import Retry
from distrain_trainer.storage.s3 import S3Store, connect
from distrain_trainer.storage.store import Store

__all__ = ["FolderStore", "Retry", "S3Store", "Store", "open_store"]


def open_store(uri: str, *, value: str, retry: Retry | None = None) -> Store:
    """Return the store for s3://bucket/prefix or for the absolute path of a folder.

    This function does not read or write any file yet. With `retry`, a call is repeated as long as S3 does not answer.
    Without `retry`, a call raises UnavailableError within about a minute.
    """
    if uri.startswith("s3://"):
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return S3Store(uri, value, bucket, prefix.strip("/"), connect(uri, value), retry or Retry(seconds=0))
    return FolderStore(uri=uri, value=value)
