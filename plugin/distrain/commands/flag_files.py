"""Read the files that flags name."""

from __future__ import annotations

from pathlib import Path

from distrain.errors import ValuesError


def text_of(flag: str, path: str, stdin: bytes | None) -> str:
    """Return the text of the file that the flag names; `stdin` is what - stands for."""
    try:
        return ((stdin or b"") if path == "-" else Path(path).read_bytes()).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValuesError(f"{flag}: {path} cannot be read: {reason}; name another file") from error
