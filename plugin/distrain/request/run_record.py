"""Read the record of a run for `status`, from the location in --record or in the release's values."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from distrain.errors import DistrainError, ValuesError

if TYPE_CHECKING:
    from distrain.record.read import Record
    from distrain.request.request import Request

# The plugin looks for the record of a release for at most SECONDS.
SECONDS = 4.0
# boto3 reads the URL of the S3 server from these environment variables.
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Found(NamedTuple):
    """The record of a run, or None if it was not read, and a message for the user if the record says nothing."""

    record: Record | None = None
    words: str = ""


def named(request: Request, release: str, place: str, endpoint: str) -> Found:
    """Read the record at the location that --record names. Use the S3 server of the release, if no other is named.

    Raises an error if the record does not exist or cannot be read.
    """
    from distrain.record import source
    from distrain.record.read import RecordError

    try:
        is_known = endpoint or any(map(os.environ.get, ENDPOINTS)) or not place.startswith(source.S3)
        storage = {} if is_known else _storage(request, release)
        return _found(*source.from_place(place, endpoint, "--record", storage))
    except RecordError as error:
        raise ValuesError(f"--record: {str(error).removeprefix('--record: ')}") from None


def _storage(request: Request, release: str) -> dict[str, Any]:
    """Return the section s3 of the release's values, or an empty dict if Helm does not return it within SECONDS."""
    from distrain.apiserver.pages import Ahead

    reading = Ahead(lambda: request.helm.releases.all_values(release, request.cluster.target).get("s3"))
    reading.join(SECONDS)
    try:
        found = None if reading.is_alive() else reading.result()
    except DistrainError:
        return {}
    return found if isinstance(found, dict) else {}


def of_release(request: Request, release: str, endpoint: str) -> Found:
    """Read the record from the location in the release's values. Give up after a few seconds.

    The record is read in a separate thread, so that the command can continue if Helm or the record's server does not
    answer.
    """
    from distrain.apiserver.pages import Ahead
    from distrain.record.source import NoPlaceError

    by_hand = f"helm distrain status {release} --record ./{release}"
    example = f"name its location, as in --record s3://bucket/{request.cluster.target.namespace}/{release}"
    reading = Ahead(request.record, release, endpoint, by_hand)
    reading.join(SECONDS)
    if reading.is_alive():
        return _unread(f"not read within {SECONDS:g} s{_without_credentials()}; {example}")
    try:
        found = reading.result()
    except NoPlaceError:
        return Found()
    except DistrainError as error:
        return _unread(_with_flag(error))
    return _found(*found) if found else _unread(f"Helm has no release {release}; {example}")


def _without_credentials() -> str:
    """Return a text for messages if the environment has no AWS credentials, otherwise an empty text.

    Without credentials, boto3 spends some time on asking the cloud's metadata service.
    """
    from distrain.record.s3 import CREDENTIALS, names_credentials

    return "" if names_credentials() else f" (your environment has no AWS credentials, which S3 needs: {CREDENTIALS})"


def _found(record: Record, place: str) -> Found:
    if record.lines:
        return Found(record)
    return _unread(f"{place} is empty: the run has not written its first line yet; try again later")


def _unread(words: str) -> Found:
    return Found(words=f"the run's record: {words}")


def _with_flag(error: DistrainError) -> str:
    """Return the error's message. Unless it names a flag, add that --record names another location.

    Another location does not help if the plugin lacks a library, or S3 the user's keys or certificates.
    """
    from distrain.record.libraries import LibraryError

    message = error.messages[0]
    needs_more = isinstance(error, LibraryError) or "AWS_" in message
    has_flag = " --record" in message or " --endpoint" in message
    return message if has_flag or needs_more else f"{message}, or name its location with --record"
