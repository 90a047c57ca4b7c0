"""Define the name of an object in the API."""

from __future__ import annotations

from msgspec import Struct


class Resource(Struct, frozen=True):
    """An object of the cluster that holds pods of the job."""

    api_version: str
    kind: str
    name: str
