"""List the names of a data set's files only once per run, and store the list next to the checkpoints.

Listing a million names takes a thousand requests to S3, or one request per folder to a file server. So only rank 0
lists the names, and writes the list to the run's checkpoint.uri. The other ranks read the stored list. After a restart,
all ranks read the stored list.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from distrain_trainer.config import Config
from distrain_trainer.errors import MissingError, StoppedError, StorageError, Termination, rank_from_environment
from distrain_trainer.storage import Retry, Store, open_store

FILE = "data-names"
FORMAT = 1
# The number of names that S3 returns per page. For a data set with no more files than this, each rank lists the names
# at each start. That takes one request, just like reading the stored list.
FEW = 1000
# Seconds for which a rank waits for rank 0's list before it lists the names itself, and the seconds between two checks.
LONGEST_WAIT, SECONDS_BETWEEN = 600.0, 1.0


def list_names(config: Config, store: Store) -> Sequence[str]:
    """Return the names of all files at data.uri, in any order. Raises StorageError, and after a signal StoppedError."""
    first = [*itertools.islice(store.names(), FEW)]
    if len(first) < FEW:
        return first
    if not config.checkpoint:
        return store.all_names()
    kept = open_store(config.checkpoint, value="checkpoint.uri", retry=Retry(heeds_sigterm=True))
    names = _read(kept, config)
    if names is None and rank_from_environment() != 0 and _is_shared(config):
        names = _wait(kept, config)
    if names is None:
        names = store.all_names()
        if rank_from_environment() == 0:
            _write(kept, config, names)
    return names


@contextmanager
def naming_the_list(config: Config) -> Iterator[None]:
    """If a file of the stored list is missing, add to the error that the list may be older than the data."""
    try:
        yield
    except MissingError as error:
        if not (kept := _kept_list(config)):
            raise
        told = f"{error}; if it was deleted on purpose, also delete {kept}, the run's list of files"
        raise MissingError(told) from None


def _kept_list(config: Config) -> str:
    """Return the full path of the stored list, or "" if there is none."""
    with suppress(StorageError):
        kept = open_store(config.checkpoint, value="checkpoint.uri") if config.checkpoint else None
        if kept is not None and _read(kept, config) is not None:
            return kept.path(FILE)
    return ""


def _is_shared(config: Config) -> bool:
    """Return whether it is certain that all ranks see the same files at checkpoint.uri.

    Only S3 guarantees this. The same path may be another folder in another pod or on another node.
    """
    return config.checkpoint.startswith("s3://")


def _wait(kept: Store, config: Config) -> Sequence[str] | None:
    deadline = time.monotonic() + LONGEST_WAIT
    while (names := _read(kept, config)) is None and time.monotonic() < deadline:
        if Termination.requested:
            raise StoppedError
        time.sleep(SECONDS_BETWEEN)
    return names


def _read(kept: Store, config: Config) -> Sequence[str] | None:
    """Return the stored list, or None if there is none or if it belongs to other data."""
    found = kept.read_tagged(FILE)
    if found is None:
        return None
    try:
        head, _, names = zlib.decompress(found[0]).decode(errors="surrogateescape").partition("\n")
        return names.split("\0") if json.loads(head) == _head(config) else None
    except (ValueError, zlib.error):  # The stored list is damaged. Rank 0 writes it again.
        return None


def _write(kept: Store, config: Config, names: Sequence[str]) -> None:
    # Neither a file system nor S3 allows a zero byte in a name.
    content = "\n".join([json.dumps(_head(config)), "\0".join(names)])
    kept.write(FILE, zlib.compress(content.encode(errors="surrogateescape"), level=1))


def _head(config: Config) -> dict[str, object]:
    """Return the values on which the list of names depends.

    A stored list is valid only while all these values stay the same.
    """
    job = os.environ.get("DISTRAIN_JOB", "") if config.resume == "never" else ""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3", "") if config.data.startswith("s3://") else ""
    return {"format": FORMAT, "data": config.data, "endpoint": endpoint, "job": job}
