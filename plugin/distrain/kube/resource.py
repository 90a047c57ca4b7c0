"""Define the name of an object in the API, and the plural of its kind there."""

from __future__ import annotations

from msgspec import Struct


class Resource(Struct, frozen=True):
    """An object of the cluster that holds pods of the job."""

    api_version: str
    kind: str
    name: str


def plural(kind: str) -> str:
    """Return the plural of a kind in the API's paths, which is also its name in quotas."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("y") and name[-2] not in "aeiou":
        return f"{name[:-1]}ies"
    return f"{name}es" if name.endswith(("s", "x", "ch")) else f"{name}s"
