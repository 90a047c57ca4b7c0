"""Define what Helm must know about a cluster to render a chart: its version and the APIs that it serves."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True):
    """The cluster's version and its served APIs, written as `group/version` and `group/version/Kind` for Helm."""

    version: str
    apis: tuple[str, ...]
