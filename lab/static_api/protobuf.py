"""Encode pods in the protobuf format that an API server sends to clients that accept it.

Each object has an envelope: `k8s\\0` and a message `Unknown` with the object's type and bytes (apimachinery's
pkg/runtime/generated.proto). The field numbers come from k8s.io/api's generated.proto.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from lab.builds.golang import binary

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
# The field numbers of the messages Unknown, TypeMeta, a list, and a list's metadata. These fields are encoded with
# their length before their content.
TYPE_META, RAW = 1, 2
API_VERSION, KIND = 1, 2
METADATA, ITEMS = 1, 2
CONTINUE = 3
WITH_LENGTH = 2

Object = dict[str, Any]


def pods(objects: Sequence[Object]) -> list[bytes]:
    """Encode each pod as an item of a PodList."""
    text = json.dumps({"items": objects}).encode()
    encoded = subprocess.run([str(binary("protobuf"))], input=text, stdout=subprocess.PIPE, check=True).stdout
    return [item for item in _fields(encoded) if item[0] == _tag(ITEMS)]


def head(size: int, token: str = "") -> bytes:
    """Return the header of a PodList whose items have `size` bytes in total.

    It contains the next page's continue token.
    """
    metadata = _field(METADATA, _field(CONTINUE, token.encode()) if token else b"")
    type_meta = _field(TYPE_META, _field(API_VERSION, b"v1") + _field(KIND, b"PodList"))
    return MAGIC + type_meta + bytes([_tag(RAW)]) + _number(len(metadata) + size) + metadata


def page(items: Sequence[bytes], token: str = "") -> bytes:
    """Return a PodList with these items."""
    return head(sum(map(len, items)), token) + b"".join(items)


def _fields(message: bytes) -> Iterator[bytes]:
    """Yield the fields of a message in which every field is length-delimited (protobuf's wire type 2)."""
    start = 0
    while start < len(message):
        length, body = _number_at(message, start + 1)
        yield message[start : body + length]
        start = body + length


def _field(number: int, body: bytes) -> bytes:
    return bytes([_tag(number)]) + _number(len(body)) + body


def _tag(number: int) -> int:
    return number << 3 | WITH_LENGTH


def _number(value: int) -> bytes:
    """Encode a number as a varint."""
    groups = []
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def _number_at(message: bytes, position: int) -> tuple[int, int]:
    """Decode the varint that begins at this position. Return its value, and the position after it."""
    value = shift = 0
    while message[position] > 127:
        value |= (message[position] & 127) << shift
        position, shift = position + 1, shift + 7
    return value | message[position] << shift, position + 1
