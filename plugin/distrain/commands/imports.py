"""Import msgspec faster."""

from __future__ import annotations

import importlib
import sys


def import_msgspec() -> None:
    """Import msgspec without typing_extensions, which takes 16 ms; typing has all that msgspec needs of it."""
    if "typing_extensions" in sys.modules or sys.version_info < (3, 11):
        return
    # typeshed does not know that None makes an import fail.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
