"""Build msgspec's decoders, one thread at a time.

msgspec examines a struct when it first builds a decoder for it. If a second thread uses the struct before that is done,
the interpreter crashes (msgspec 0.20). So every decoder that a thread may need is built here.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_BUILDING = threading.Lock()


@functools.cache
def decoder(form: Any, strict: bool = True) -> msgspec.json.Decoder[Any]:
    """Return the decoder of JSON for a form."""
    with _BUILDING:
        return msgspec.json.Decoder(form, strict=strict)


def convert(found: Any, form: type[T]) -> T:
    """Convert parsed data to a form. Raises msgspec.ValidationError if it is of another form."""
    decoder(form)
    return msgspec.convert(found, form)
