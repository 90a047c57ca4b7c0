"""Ports of the host, as resources of which a node has one each.

Two pods on a node may not have the same protocol and port on the same address; one on all addresses (0.0.0.0) conflicts
with every other one. So a pod on all addresses asks for each address that a pod of the job names, and for a
resource of its own, which pods on other addresses take from it. The scheduler takes no other address, `::` included,
for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from distrain import kube
from distrain.amounts import Units
from distrain.kube.pods import Kind

NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
ALL = "0.0.0.0"
PREFIX = "host port "


class HostPort(Struct, frozen=True):
    protocol: str
    number: int
    address: str


def host_ports(spec: kube.PodSpec | Kind) -> frozenset[HostPort]:
    """Return the host's ports that the pod holds while it runs; init containers that end hold none."""
    lasting = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return frozenset(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ALL)
        for container in (*lasting, *(spec.containers or ()))
        for port in container.ports or ()
        if port.host_port and port.host_port > 0
    )


class PortResources:
    """The resources that stand for the ports of a job's roles."""

    def __init__(self, roles: Iterable[frozenset[HostPort]]) -> None:
        self._addresses: dict[tuple[str, int], list[str]] = {}
        for port in sorted({port for role in roles for port in role}, key=lambda port: port.address):
            self._addresses.setdefault((port.protocol, port.number), []).append(port.address)

    def request(self, ports: Iterable[HostPort]) -> Units:
        return {name: 1 for port in ports for name in self._names(port)}

    def free(self, taken: Iterable[HostPort]) -> Units:
        """Return what is free on a node where pods hold these ports."""
        free = {_name(*key, address) for key, addresses in self._addresses.items() for address in (*addresses, ALL)}
        held = {name for port in taken for name in self._held(port)}
        return {name: 0 if name in held else 1 for name in sorted(free)}

    def _names(self, port: HostPort) -> list[str]:
        """Return what a pod of the job asks for with a port."""
        key = (port.protocol, port.number)
        addresses = [*self._addresses[key], ALL] if port.address == ALL else [port.address]
        return [_name(*key, address) for address in addresses]

    def _held(self, port: HostPort) -> list[str]:
        """Return what a pod of somebody else takes with a port."""
        key = (port.protocol, port.number)
        known = self._addresses.get(key, ())
        if port.address == ALL:
            return [_name(*key, address) for address in (*known, ALL)]
        # An address that no pod of the job names is in the way of those on all addresses alone.
        return [_name(*key, port.address if port.address in known else ALL)]


def in_words(shortages: Sequence[str]) -> list[str]:
    """Say missing ports as the scheduler does, which looks at them before resources."""
    if any(PREFIX in words for words in shortages):
        return [NO_FREE_PORTS]
    return [*shortages]


def _name(protocol: str, number: int, address: str) -> str:
    return f"{PREFIX}{protocol} {address}:{number}"
