"""Split a user's URL into parts. No message repeats a URL, because it may contain a password."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit

from urllib3.util import parse_url


def split(url: str) -> SplitResult | None:
    """Return the parts of the URL, with the host in ASCII (IDNA).

    Return None if the host or the port is missing or invalid.
    """
    try:
        parts = urlsplit(url)
        # Reading the port raises ValueError if it is not a number.
        _ = parts.port
        login, at, place = parts.netloc.rpartition("@")
        # urllib3 needs a further package for host names that are not ASCII, so the name is encoded here. An empty or
        # too long label raises UnicodeError.
        parts = parts._replace(netloc=login + at + place.encode("idna").decode())
        parse_url(without_login(parts).geturl())
    except ValueError:
        return None
    return parts if parts.hostname else None


def login(parts: SplitResult) -> tuple[str, str] | None:
    """Return the user and the password of a URL like https://USER:PASSWORD@HOST, or None if the URL names no user."""
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def without_login(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2])
