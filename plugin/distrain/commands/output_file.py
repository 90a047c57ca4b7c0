"""Write the file that --output names: all of it, or nothing."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from distrain.errors import ValuesError, reason


def refuse_existing(target: Path, *, force: bool) -> None:
    """Raise ValuesError for a file that exists, unless --force is given, and for a folder."""
    if target.is_dir():
        raise ValuesError(f"--output: {target} is a folder; name a file")
    if target.exists() and not force:
        raise ValuesError(f"--output: {target} is there already; name another file, or add --force to replace it")


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file beside the target. It replaces the target at the end; after an error it is deleted.

    Raises ValuesError if the file cannot be written.
    """
    # A link stays, and the file to which it points is replaced.
    target = target.resolve()
    # A device or a pipe cannot be replaced.
    is_replaced = target.is_file() or not target.exists()
    written = target.with_name(f".distrain-{secrets.token_hex(4)}") if is_replaced else target
    try:
        with written.open("xb" if is_replaced else "wb") as file:
            yield file
        if is_replaced:
            written.replace(target)
    except OSError as error:
        raise ValuesError(f"--output: {target} cannot be written: {reason(error)}; name another file") from error
    finally:
        if is_replaced:
            written.unlink(missing_ok=True)
