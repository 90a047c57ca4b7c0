"""NodePorts: model each host port as a resource with one unit per node.

On one node, two pods cannot use the same protocol and port on the same address. A pod that uses a port on all addresses
(0.0.0.0) conflicts with every other pod that uses this port. So a pod on 0.0.0.0 requests several resources: one for
each address that a pod of the job names, and one that stands for all other addresses. Only 0.0.0.0 means all addresses
to the scheduler; `::` does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from distrain import kube
from distrain.kube.quantities import Units
from distrain.pods.counted_pod import Kind

ALL = "0.0.0.0"
PREFIX = "host port "


class UsedPort(Struct, frozen=True):
    """A port of the node that a pod uses."""

    protocol: str
    number: int
    address: str


def host_ports(spec: kube.PodSpec | Kind) -> frozenset[UsedPort]:
    """Return the host ports of the pod's containers and sidecars. Other init containers are ignored."""
    lasting = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return frozenset(
        UsedPort(port.protocol or "TCP", port.host_port, port.host_ip or ALL)
        for container in (*lasting, *(spec.containers or ()))
        for port in container.ports or ()
        if port.host_port and port.host_port > 0
    )


class PortResources:
    """The resources that stand for the host ports of a job's roles."""

    def __init__(self, roles: Iterable[frozenset[UsedPort]]) -> None:
        self._addresses: dict[tuple[str, int], list[str]] = {}
        for port in sorted({port for role in roles for port in role}, key=lambda port: port.address):
            self._addresses.setdefault((port.protocol, port.number), []).append(port.address)

    def request(self, ports: Iterable[UsedPort]) -> Units:
        return {name: 1 for port in ports for name in self._names(port)}

    def free(self, taken: Iterable[UsedPort]) -> Units:
        """Return which of these resources a node has free, if its pods use the ports in `taken`."""
        free = {_name(*key, address) for key, addresses in self._addresses.items() for address in (*addresses, ALL)}
        held = {name for port in taken for name in self._held(port)}
        return {name: 0 if name in held else 1 for name in sorted(free)}

    def _names(self, port: UsedPort) -> list[str]:
        """Return the names of the resources that stand for a host port in the request of a job's pod."""
        key = (port.protocol, port.number)
        addresses = [*self._addresses[key], ALL] if port.address == ALL else [port.address]
        return [_name(*key, address) for address in addresses]

    def _held(self, port: UsedPort) -> list[str]:
        """Return the names of the resources that a node has no longer free if one of its pods uses this port."""
        key = (port.protocol, port.number)
        known = self._addresses.get(key, ())
        if port.address == ALL:
            return [_name(*key, address) for address in (*known, ALL)]
        # If no pod of the job uses this address, this port can conflict only with a port of the job on 0.0.0.0.
        return [_name(*key, port.address if port.address in known else ALL)]


def _name(protocol: str, number: int, address: str) -> str:
    return f"{PREFIX}{protocol} {address}:{number}"
