"""Build the API server's paths. Names are escaped, so a slash or question mark in a name does not change the path."""

from __future__ import annotations

from urllib.parse import quote

from distrain.kube.resource import plural


def root(api_version: str) -> str:
    """Return the path under which the API server serves all objects of one API version."""
    return "/api/v1" if api_version == "v1" else f"/apis/{api_version}"


def namespace(name: str, api_version: str = "v1") -> str:
    """Return the path under which the API server serves a namespace's objects of one API version."""
    return root(api_version) + _path("namespaces", name)


def pod(namespace_name: str, name: str) -> str:
    return namespace(namespace_name) + _path("pods", name)


def of_kind(api_version: str, kind: str, namespace_name: str, *name: str) -> str:
    """Return the path of an object; without a name, the path of all objects of this kind.

    An empty namespace stands for all namespaces.
    """
    parent = namespace(namespace_name, api_version) if namespace_name else root(api_version)
    return parent + _path(plural(kind), *name)


def _path(*names: str) -> str:
    return "".join(f"/{quote(name, safe='')}" for name in names)
