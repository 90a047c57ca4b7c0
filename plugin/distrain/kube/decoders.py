"""Build the decoders of msgspec, in only one thread at a time.

msgspec examines a struct when it builds the first decoder for the struct. If a second thread uses the struct before
that is done, the Python interpreter crashes (msgspec 0.20). So every decoder that a thread may need is built here.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Hashable
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
_BUILDING = threading.Lock()


def decoder(form: type[T], strict: bool = True) -> msgspec.json.Decoder[T]:
    """Return a decoder that converts JSON to the given type."""
    return _built(cast(Hashable, form), strict)


def convert(found: Any, form: type[T]) -> T:
    """Convert parsed JSON or YAML to the given type.

    Raises msgspec.ValidationError if the data does not fit the type.
    """
    _built(cast(Hashable, form), True)
    return msgspec.convert(found, form)


@functools.cache
def _built(form: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    with _BUILDING:
        return msgspec.json.Decoder(form, strict=strict)
