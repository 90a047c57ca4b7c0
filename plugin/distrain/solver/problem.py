"""Define the scheduling problem: pods to place on nodes, as numbers and names, without API objects.

A role's rules concern the job's own pods. Other pods of the cluster have already reduced the nodes that admit the role
and the nodes' free amounts, and are the `present` pods of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Node(Struct, frozen=True):
    """A node and its free resources; the resource `pods` counts its free pod slots.

    `labels` are only those that a rule uses as a topology key. Nodes with equal values form one domain.
    """

    name: str
    free: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)


class Affinity(Struct, frozen=True):
    """Required pod affinity, with one term per topology key; every term must hold.

    A pod counts only if it matches every term, as the pods of `roles` do. For each key, the node's domain must have a
    pod that counts: a pod of the job, or another pod of the cluster. `present` lists the domains of those other pods
    per key. A node without one of the keys is refused. If no domain has a pod that counts, a pod whose own role is in
    `roles` may go to any node with all the keys.
    """

    keys: tuple[str, ...]
    roles: frozenset[str]
    present: Mapping[str, frozenset[str]] = field(default_factory=dict)


class AntiAffinity(Struct, frozen=True):
    """Required pod anti-affinity: no pod of these roles in the node's domain.

    The rule applies to both roles, even if only one role states it. The rule does not apply on a node without the key.
    """

    key: str
    roles: frozenset[str]


class TopologySpread(Struct, frozen=True):
    """A topology spread constraint with DoNotSchedule.

    Pods of `roles` on `eligible` nodes are counted, plus the `present` pods of each domain. A pod may go to a node if
    count + own - smallest <= `max_skew`. `count` is the count of the node's domain, and `own` is 1 if the pod's role is
    counted. `smallest` is the smallest count over the domains of eligible nodes, or 0 with fewer than `min_domains`
    domains. A node without the key does not admit the role.
    """

    key: str
    max_skew: int
    roles: frozenset[str]
    eligible: frozenset[str]
    present: Mapping[str, int] = field(default_factory=dict)
    min_domains: int = 1


class Role(Struct, frozen=True):
    """Equal pods: their number, the request of each (including one of `pods`), and the nodes that admit them."""

    name: str
    count: int
    request: Mapping[str, int]
    nodes: frozenset[str]
    affinity: Affinity | None = None
    anti_affinity: tuple[AntiAffinity, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
