"""Evaluate NetworkPolicies: which connections they allow.

The rules follow https://kubernetes.io/docs/concepts/services-networking/network-policies/. As soon as a policy selects
a pod for a direction, the pod may have only those connections in this direction that some policy allows. The policies
of both pods must allow a connection.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Policy = Mapping[str, Any]


@dataclass(frozen=True)
class Pod:
    """A pod and its namespace, for the evaluation of NetworkPolicies.

    The namespace has no label except its name, which Kubernetes sets as kubernetes.io/metadata.name.
    """

    labels: Mapping[str, str] = field(hash=False)
    namespace: str = "team"

    @property
    def namespace_labels(self) -> dict[str, str]:
        return {"kubernetes.io/metadata.name": self.namespace}


@dataclass(frozen=True)
class Host:
    """A host outside the cluster, or the API server."""

    address: str


@dataclass(frozen=True)
class Connection:
    source: Pod | Host
    target: Pod | Host
    port: int
    protocol: str = "TCP"


def allows(policies: Iterable[Policy], connection: Connection) -> bool:
    """Return whether the policies allow a new connection."""
    known = list(policies)
    ends = (("Egress", connection.source, connection.target), ("Ingress", connection.target, connection.source))
    return all(_consents(known, direction, pod, peer, connection) for direction, pod, peer in ends)


def _consents(
    policies: list[Policy], direction: str, pod: Pod | Host, peer: Pod | Host, connection: Connection
) -> bool:
    if isinstance(pod, Host):
        return True
    selecting = [one for one in policies if direction in one["spec"]["policyTypes"] and _selects_pod(one, pod)]
    rules = [(one, rule) for one in selecting for rule in one["spec"].get(direction.lower(), [])]
    return not selecting or any(_matches(policy, rule, direction, peer, connection) for policy, rule in rules)


def _selects_pod(policy: Policy, pod: Pod) -> bool:
    in_namespace = policy["metadata"]["namespace"] == pod.namespace
    return in_namespace and selects(policy["spec"]["podSelector"], pod.labels)


def _matches(policy: Policy, rule: Policy, direction: str, peer: Pod | Host, connection: Connection) -> bool:
    peers, ports = rule.get("to" if direction == "Egress" else "from"), rule.get("ports")
    is_of_peer = not peers or any(_is_peer(policy, one, peer) for one in peers)
    return is_of_peer and (not ports or any(_is_port(one, connection) for one in ports))


def _is_port(port: Policy, connection: Connection) -> bool:
    first = int(port.get("port", 0))
    last = int(port.get("endPort", first)) if first else 65535
    return port.get("protocol", "TCP") == connection.protocol and first <= connection.port <= last


def _is_peer(policy: Policy, known: Policy, peer: Pod | Host) -> bool:
    if isinstance(peer, Host) or "ipBlock" in known:
        return isinstance(peer, Host) and _is_in(known.get("ipBlock"), peer.address)
    if "namespaceSelector" in known:
        is_near = selects(known["namespaceSelector"], peer.namespace_labels)
    else:
        is_near = peer.namespace == policy["metadata"]["namespace"]
    return is_near and selects(known.get("podSelector", {}), peer.labels)


def _is_in(block: Policy | None, address: str) -> bool:
    if block is None:
        return False
    found = ipaddress.ip_address(address)
    inside = [found in ipaddress.ip_network(cidr) for cidr in (block["cidr"], *block.get("except", []))]
    return inside[0] and not any(inside[1:])


def selects(selector: Policy, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector of Kubernetes selects an object with these labels."""
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions", []))


def _holds(expression: Policy, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    return {
        "In": value is not None and value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]
