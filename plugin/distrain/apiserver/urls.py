"""The parts of a URL that a user wrote. No message repeats one: a password may stand in it."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit


def split(url: str) -> SplitResult | None:
    """Return the parts; None where there is no host, or no port where one should be."""
    try:
        parts = urlsplit(url)
        # Only reading it shows whether it is a number.
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.hostname else None


def login(parts: SplitResult) -> tuple[str, str] | None:
    """Return the user and the password of a URL like https://USER:PASSWORD@HOST, None where it has no user."""
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")
