"""Define a cluster's capabilities: its version and the APIs that it serves, as Helm's flags take them."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True):
    """The cluster's version and its served APIs, written as `group/version` and `group/version/Kind` for Helm."""

    version: str
    apis: tuple[str, ...]
