"""Find and read the record that an argument names: a folder, a file, a place in S3, or a release's name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distrain import files
from distrain.errors import ValuesError, reason
from distrain.record import read
from distrain.record.read import Record, RecordError
from distrain.report import libraries, s3
from distrain.report.s3 import Bucket

S3 = "s3://"


def is_place(word: str) -> bool:
    """Tell whether an argument is a folder, a file or a URI. A release's name has neither a slash nor a suffix."""
    return "/" in word or word.endswith(".jsonl") or word in (".", "..")


def from_place(word: str, endpoint: str) -> tuple[Record, str]:
    """Read the record at a place; return it with the place's full name. Raises RecordError and UnreachableError."""
    if word.startswith(S3):
        return from_bucket(Bucket(word, endpoint))
    if "://" in word:
        raise ValuesError(f"RUN: {word} is neither s3://bucket/folder nor a folder; copy the record, and name the copy")
    return from_path(Path(word))


def from_bucket(bucket: Bucket) -> tuple[Record, str]:
    libraries.require(libraries.S3)
    content, uri = s3.read(bucket)
    return read.parse(content, uri), uri


def from_path(path: Path) -> tuple[Record, str]:
    try:
        if path.is_dir():
            return read.in_folder(path), str(path)
        return read.parse(files.read(path, files.MANIFEST), str(path)), str(path)
    except (OSError, ValueError) as error:
        words = f"RUN: {path} cannot be read: {reason(error)}"
        raise RecordError(f"{words}; name the folder of a run, or its record.jsonl") from None


def from_release(name: str, namespace: str, values: Mapping[str, Any], endpoint: str) -> tuple[Record, str]:
    """Read the record of a release from where its values say. Raises ValuesError if they name no place."""
    value, uri = _uri(name, values)
    place = f"{uri.rstrip('/')}/{namespace}/{name}"
    if uri.startswith(S3):
        storage = values.get("s3") or {}
        server = endpoint or str(storage.get("endpoint") or "")
        is_insecure = bool(storage.get("insecureTLS"))
        return from_bucket(Bucket(place, server, str(storage.get("region") or ""), is_insecure, value, namespace))
    if Path(place).is_dir():
        return from_path(Path(place))
    raise ValuesError(
        f"{value}: {place} is a folder in the pods of {name}, on a volume; copy it to this machine, for example by "
        f"`kubectl cp` from a pod that mounts the volume, and run `helm distrain report ./{name}`"
    )


def _uri(name: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path of the value that names the place of a release's record, and the value."""
    sections = {path: values.get(path) for path in ("output", "checkpoint")}
    if not all(isinstance(section, Mapping) for section in sections.values()):
        raise ValuesError(f"{name}: is a release of another chart: its values have no output and no checkpoint")
    for path, section in sections.items():
        if section and section.get("uri"):
            return f"{path}.uri", str(section["uri"])
    raise ValuesError(f"{name}: its values name neither output.uri nor checkpoint.uri, so it keeps no record; set one")
