"""Define the APIs that a cluster serves, in the form that Helm reads."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True):
    """The cluster's version and its served APIs, written as `group/version` and `group/version/Kind` for Helm."""

    version: str
    apis: tuple[str, ...]
