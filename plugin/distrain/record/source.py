"""Find and read the record that an argument names: a folder, a file, an S3 URI, or a release's name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distrain import files
from distrain.errors import ValuesError, reason
from distrain.record import libraries, read, s3
from distrain.record.read import Record, RecordError
from distrain.record.s3 import Bucket

S3 = "s3://"


class NoPlaceError(ValuesError):
    """The values of a release do not say where its record is."""


def is_place(word: str) -> bool:
    """Tell whether an argument is a folder, a file or a URI, and not the name of a release.

    A name contains no slash and does not end in .jsonl.
    """
    return "/" in word or word.endswith(".jsonl") or word in (".", "..")


def from_place(
    word: str, endpoint: str, argument: str = "RUN", storage: Mapping[str, Any] | None = None
) -> tuple[Record, str]:
    """Read the record at the location that an argument names. Return the record, and the full name of the location.

    `storage` is the section s3 of a release's values, if the record is that of a release.

    Raises RecordError, UnreachableError, and LibraryError if boto3 is not installed.
    """
    if word.startswith(S3):
        return from_bucket(_bucket(word, endpoint, storage or {}, argument))
    if "://" in word:
        words = f"{word} is neither s3://bucket/folder nor a folder; copy the record to a folder, and name that folder"
        raise ValuesError(f"{argument}: {words}")
    return from_path(Path(word), argument)


def from_bucket(bucket: Bucket) -> tuple[Record, str]:
    libraries.require(libraries.S3, f"{bucket.value}: {bucket.uri}")
    content, uri = s3.read(bucket)
    return read.parse(content, uri), uri


def from_path(path: Path, argument: str) -> tuple[Record, str]:
    try:
        if path.is_dir():
            return read.in_folder(path), str(path)
        return read.parse(files.read(path, files.MANIFEST), str(path)), str(path)
    except (OSError, ValueError) as error:
        words = f"{argument}: {path} cannot be read: {reason(error)}"
        raise RecordError(f"{words}; name the folder of a run, or its record.jsonl") from None


def from_release(
    name: str, namespace: str, values: Mapping[str, Any], endpoint: str, command: str
) -> tuple[Record, str]:
    """Read a release's record from the location in its values.

    `command` is shown in an error message: the user can run it after copying the record to the folder ./NAME.

    Raises NoPlaceError if the values of the release name no location.
    """
    value, uri = _uri(name, values)
    place = f"{uri.rstrip('/')}/{namespace}/{name}"
    if uri.startswith(S3):
        return from_bucket(_bucket(place, endpoint, values.get("s3") or {}, value, namespace))
    if os.path.isdir(place):  # isdir also returns False if the path is too long or the user may not read it.
        return from_path(Path(place), value)
    raise ValuesError(
        f"{value}: {place} is a folder in the pods of {name}, on a volume; copy it to this machine, for example by "
        f"`kubectl cp` from a pod that mounts the volume, and run `{command}`"
    )


def _bucket(place: str, endpoint: str, storage: Mapping[str, Any], value: str, namespace: str = "") -> Bucket:
    server, region = endpoint or str(storage.get("endpoint") or ""), str(storage.get("region") or "")
    is_insecure, style = bool(storage.get("insecureTLS")), str(storage.get("addressingStyle") or "")
    return Bucket(place, server, region, is_insecure, value, namespace, style)


def _uri(name: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path of the value that sets the location of a release's record, and the location itself."""
    sections = {path: values.get(path) for path in ("output", "checkpoint")}
    if not all(isinstance(section, Mapping) for section in sections.values()):
        raise ValuesError(f"{name}: is a release of another chart: its values have no output and no checkpoint")
    for path, section in sections.items():
        if section and section.get("uri"):
            return f"{path}.uri", str(section["uri"])
    raise NoPlaceError(
        f"{name}: its values set neither output.uri nor checkpoint.uri, so the run keeps no record; set one of the two"
    )
