"""Make a library lighter to import."""

from __future__ import annotations

import importlib
import sys


def import_msgspec() -> None:
    """Import it as where there is no typing_extensions: those take 16 ms, and typing has all that it wants of them."""
    if "typing_extensions" in sys.modules or sys.version_info < (3, 11):
        return
    # typeshed does not know that None makes an import fail.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]
