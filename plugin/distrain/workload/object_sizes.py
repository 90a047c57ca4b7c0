"""Find the objects in a manifest that are larger than the API server accepts or than etcd stores.

All sizes are in bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from distrain.workload.documents import Item, name_of

# Kubernetes pkg/apis/core/types.go, MaxSecretSize: all values of a Secret or ConfigMap together may have at most this
# number of bytes.
MOST_DATA = 2**20
# apimachinery pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB: all keys and values of an object's
# annotations together may have at most this number of bytes.
MOST_OF_ANNOTATIONS = 2**18
ANNOTATIONS = "metadata.annotations"
# etcd server/embed/config.go, DefaultMaxRequestBytes: one request writes the whole object, so an object may have at
# most this number of bytes.
MOST_STORED = 3 * 2**19
# Kubernetes apiserver pkg/server/config.go, MaxRequestBodyBytes: the JSON that Helm and kubectl send may have at most
# this number of bytes.
MOST_SENT = 3 * 2**20
# If an object is too large, the message names its smallest field that still makes up at least this share of its size.
SHARE = 0.25
# Objects of these kinds have data in only two fields: one with plain text, and one with base64.
DATA = {"Secret": ("stringData", "data"), "ConfigMap": ("data", "binaryData")}


class TooLarge(Struct, frozen=True):
    """An object that exceeds a limit of its size.

    `reason` quotes the refusal. `field` is the largest part of the object, and this part has `of_field` bytes.
    """

    name: str
    size: int
    most: int
    reason: str
    field: str = ""
    of_field: int = 0


def too_large(items: Iterable[Item]) -> Iterator[TooLarge]:
    """Yield the objects that are too large to be stored."""
    for item in items:
        data = data_size(item)
        if data > MOST_DATA:
            yield TooLarge(name_of(item), data, MOST_DATA, too_long_data(item["kind"]), *_largest(item))
        elif (size := stored_size(item)) > MOST_STORED:
            yield TooLarge(name_of(item), size, MOST_STORED, "etcdserver: request is too large", *_largest(item))
        elif (sent := json_size(item)) > MOST_SENT:
            yield TooLarge(
                name_of(item), sent, MOST_SENT, f"Request entity too large: limit is {MOST_SENT}", *_largest(item)
            )


def annotated_too_much(items: Iterable[Item]) -> Iterator[TooLarge]:
    """Yield the objects whose annotations are larger than the API server accepts."""
    for item in items:
        size = annotations_size((item.get("metadata") or {}).get("annotations") or {})
        if size > MOST_OF_ANNOTATIONS:
            reason = too_long(item["kind"], ANNOTATIONS, MOST_OF_ANNOTATIONS)
            yield TooLarge(name_of(item), size, MOST_OF_ANNOTATIONS, reason, ANNOTATIONS, size)


def annotations_size(annotations: Mapping[str, str]) -> int:
    """Return the number of bytes of all keys and values."""
    return sum(len(str(text).encode()) for pair in annotations.items() for text in pair)


def too_long_data(kind: str) -> str:
    """Return the API server's message about too much data.

    The message names the field of a Secret, but not the field of a ConfigMap.
    """
    return too_long(kind, {"ConfigMap": "[]"}.get(kind, "data"), MOST_DATA)


def too_long(kind: str, field: str, most: int) -> str:
    """Return the API server's message about a field that is too long."""
    return f"{kind} is invalid: {field}: Too long: may not be more than {most} bytes"


def data_size(item: Item) -> int:
    """Return the number of bytes of all values in a Secret or ConfigMap. Return 0 for any other object."""
    if item.get("apiVersion") != "v1" or item.get("kind") not in DATA:
        return 0
    plain, encoded = ({**(item.get(field) or {})} for field in DATA[item["kind"]])
    sizes = {key: _decoded_size(str(value or "")) for key, value in encoded.items()}
    # An entry of a Secret's `stringData` replaces the entry of `data` with the same key.
    return sum({**sizes, **{key: len(str(value or "").encode()) for key, value in plain.items()}}.values())


def _decoded_size(text: str) -> int:
    """Return how many bytes a base64 text encodes: 3 bytes in 4 letters.

    Go skips line breaks in base64, and `=` only pads the end.
    """
    return (len(text) - sum(text.count(each) for each in "\r\n=")) * 3 // 4


def stored_size(item: Item) -> int:
    """Return a lower bound for the object's size in etcd, in bytes. Fields that the API server adds are not counted.

    Kubernetes stores objects of its own kinds in protobuf, which contains no field names. Kubernetes stores all other
    objects as JSON.
    """
    group = str(item.get("apiVersion")).rpartition("/")[0]
    is_own = "." not in group or group.endswith(".k8s.io")
    return _size_of_texts(item) if is_own else json_size(item)


def json_size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode())


def _size_of_texts(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_size_of_texts, value.values()))
    if isinstance(value, list):
        return sum(map(_size_of_texts, value))
    return len(value.encode()) if isinstance(value, str) else 0


def _largest(item: Item) -> tuple[str, int]:
    """Return the path and the number of bytes of the smallest field that makes up at least SHARE of the object."""
    found: Any = item
    path, least = "", SHARE * json_size(item)
    while True:
        parts = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
        size, key, part = max(((json_size(part), key, part) for key, part in parts), key=_first, default=(0, "", None))
        if size < least:
            return path, json_size(found)
        path += f"[{key}]" if isinstance(found, list) else f".{key}" if path else str(key)
        found = part


def _first(sized: tuple[int, Any, Any]) -> int:
    return sized[0]
