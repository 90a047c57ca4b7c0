"""Write the file that --output names: either completely or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from distrain.errors import ValuesError, reason


def refuse_existing(target: Path, *, force: bool) -> None:
    """Raise ValuesError if the target is a folder, has an invalid name, or exists and --force is not given."""
    try:
        str(target).encode()
        is_folder, exists = target.is_dir(), target.exists()
    except (OSError, UnicodeError) as error:
        raise ValuesError(f"--output: {target} cannot be written: {reason(error)}; name another file") from error
    if is_folder:
        raise ValuesError(f"--output: {target} is a folder; name a file")
    if exists and not force:
        raise ValuesError(f"--output: {target} already exists; name another file, or add --force to replace it")


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file beside the target.

    At the end the temporary file replaces the target; after an error it is deleted.

    Raises ValuesError if the file cannot be written.
    """
    target = _resolved(target)
    # Write directly to a device or a pipe, because it cannot be replaced by a new file.
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


def _resolved(target: Path) -> Path:
    """Resolve symbolic links: the link itself stays, and the file to which it points is replaced."""
    try:
        return target.resolve()
    except (OSError, RuntimeError) as error:  # The working folder is deleted, or a link points to itself.
        raise ValuesError(f"--output: {target} cannot be written: {reason(error)}; name another file") from error
