"""Validate how a pod resolves names: its DNS policy, its DNS configuration, and its lines for /etc/hosts.

Kubernetes pkg/apis/core/validation/validation.go: validateDNSPolicy, validatePodDNSConfig, ValidateHostAliases
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from distrain import kube
from distrain.admission.validation.field_errors import invalid, not_supported, required
from distrain.admission.validation.names import dns_subdomain, of_each, relaxed_subdomain
from distrain.kube.pod_spec import DNSConfig

NONE = "None"
POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", NONE)
MOST_SERVERS, MOST_SEARCHES, LONGEST_SEARCH_LIST = 3, 32, 2048
OF_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
IPV4 = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)")


def of_dns(path: str, spec: kube.TemplateSpec) -> Iterator[str]:
    """Validate the DNS fields of a pod."""
    if spec.dns_policy and spec.dns_policy not in POLICIES:
        yield not_supported(f"{path}.dnsPolicy", spec.dns_policy, POLICIES)
    yield from _of_config(f"{path}.dnsConfig", spec.dns_config, needs_server=spec.dns_policy == NONE)
    for index, alias in enumerate(spec.host_aliases or ()):
        yield from _of_ip(f"{path}.hostAliases[{index}].ip", alias.ip)
        for number, name in enumerate(alias.hostnames or ()):
            yield from of_each(f"{path}.hostAliases[{index}].hostnames[{number}]", name, dns_subdomain)


def _of_config(path: str, config: DNSConfig | None, *, needs_server: bool) -> Iterator[str]:
    if config is None:
        if needs_server:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        return
    servers = config.nameservers or []
    if needs_server and not servers:
        yield required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
        return
    if len(servers) > MOST_SERVERS:
        yield invalid(f"{path}.nameservers", servers, f"must not have more than {MOST_SERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from _of_ip(f"{path}.nameservers[{index}]", server)
    yield from _of_searches(f"{path}.searches", config.searches or [])
    for index, option in enumerate(config.options or ()):
        if not option.name:
            yield required(f"{path}.options[{index}]", "must not be empty")


def _of_searches(path: str, searches: list[str]) -> Iterator[str]:
    if len(searches) > MOST_SEARCHES:
        yield invalid(path, searches, f"must not have more than {MOST_SEARCHES} search paths")
    if len(" ".join(searches).encode()) > LONGEST_SEARCH_LIST:
        rule = f"must not have more than {LONGEST_SEARCH_LIST} characters (including spaces) in the search list"
        yield invalid(path, searches, rule)
    for index, search in enumerate(searches):
        if search != ".":
            yield from of_each(f"{path}[{index}]", search.removesuffix("."), relaxed_subdomain)


def _of_ip(path: str, address: str) -> Iterator[str]:
    if not _is_ip(address):
        yield invalid(path, address, OF_IP)


def _is_ip(address: str) -> bool:
    """Tell whether Go's net.ParseIP reads an address.

    Kubernetes still allows leading zeros in the parts of an address.
    """
    if parts := IPV4.fullmatch(address):
        return all(int(part[-10:]) <= 255 and len(part) < 10 for part in parts.groups())
    try:
        return ":" in address and "%" not in address and bool(ipaddress.IPv6Address(address))
    except ValueError:
        return False
