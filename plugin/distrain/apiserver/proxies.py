"""Find the proxy for an API server, as Go does.

The kubeconfig's `proxy-url` comes first, then the environment's proxy.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from distrain.apiserver import urls
from distrain.errors import UnreachableError


def proxy_of(server: str, own: str | None) -> str | None:
    """Return the proxy's URL, or None for a direct connection; raise UnreachableError for an unsupported proxy."""
    proxy, origin = (own, "proxy-url") if own else _from_environment(server)
    if not proxy:
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    parts = urls.split(url)
    if parts is None:
        raise UnreachableError(f"{origin}: is not the URL of a proxy; write http://HOST:PORT")
    if parts.scheme != "http":
        raise UnreachableError(f"{origin}: a proxy with {parts.scheme}:// is not supported; use http://HOST:PORT")
    return parts.geturl()


def _from_environment(server: str) -> tuple[str, str]:
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    found = os.environ.get(name.upper()) or os.environ.get(name) or ""
    return ("", "") if not found or _is_direct(parts.hostname or "", parts.port or 443) else (found, name.upper())


def _is_direct(host: str, port: int) -> bool:
    if host == "localhost" or _loopback(host):
        return True
    exceptions = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    return any(_matches(entry.strip().lower(), host.lower(), port) for entry in exceptions.split(",") if entry.strip())


def _matches(entry: str, host: str, port: int) -> bool:
    """Tell whether a NO_PROXY entry matches a host and port.

    An entry is `*`, a network, an address, or a domain (which includes its subdomains); a port may follow.
    """
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    name, _, only = entry.rpartition(":") if entry.rpartition(":")[2].isdecimal() else (entry, "", "")
    if only and int(only) != port:
        return False
    domain = name.removeprefix("*")
    return host == domain or host.endswith("." + domain.removeprefix("."))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
