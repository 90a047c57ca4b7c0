"""Validate the ports of containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distrain import kube
from distrain.admission.validation.field_errors import duplicate, invalid, not_supported, required
from distrain.admission.validation.names import of_each, port_name

PROTOCOLS = ("SCTP", "TCP", "UDP")
LAST = 65535
OF_HOST_NETWORK = "must match `containerPort` when `hostNetwork` is true"


def of_ports(path: str, ports: Sequence[kube.Port]) -> Iterator[str]:
    """Validate the ports of one container."""
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _of_name(f"{path}[{index}].name", port.name or "", names)
        yield from _of_port(f"{path}[{index}]", port)


def of_host_ports(path: str, containers: Sequence[kube.Container]) -> Iterator[str]:
    """Yield a message for each container port that has the same host port as an earlier container port of the pod."""
    taken: set[str] = set()
    for container, item in enumerate(containers):
        for index, port in enumerate(item.ports or ()):
            name = f"{port.protocol or 'TCP'}/{port.host_ip or ''}/{port.host_port}"
            if port.host_port and name in taken:
                yield duplicate(f"{path}[{container}].ports[{index}].hostPort", name)
            taken.add(name)


def of_host_network(path: str, containers: Sequence[kube.Container]) -> Iterator[str]:
    """Validate the host ports of containers that use the node's network."""
    for container, item in enumerate(containers):
        for index, port in enumerate(item.ports or ()):
            if (port.host_port or 0) != (port.container_port or 0):
                yield invalid(f"{path}[{container}].ports[{index}].hostPort", port.host_port, OF_HOST_NETWORK)


def _of_name(path: str, name: str, names: set[str]) -> Iterator[str]:
    wrong = list(of_each(path, name, port_name)) if name else []
    yield from wrong
    if name and name in names:
        yield duplicate(path, name)
    if not wrong:
        names.add(name)


def _of_port(path: str, port: kube.Port) -> Iterator[str]:
    if not port.container_port:
        yield required(f"{path}.containerPort")
    for key, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
        if number and not 1 <= number <= LAST:
            yield invalid(f"{path}.{key}", number, f"must be between 1 and {LAST}, inclusive")
    if port.protocol and port.protocol not in PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.protocol, PROTOCOLS)
