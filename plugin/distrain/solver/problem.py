"""Define the scheduling problem (which pods to place on which nodes) by numbers and names, without API objects.

The rules of a role are about the job's own pods. Pods that already run in the cluster are no part of the problem. They
are already taken into account in the nodes that admit a role, in the nodes' free resources, and in `present` of the
rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Node(Struct, frozen=True):
    """A node and its free resources. The resource `pods` is the number of its free pod slots.

    `labels` are only the labels that a rule uses as a topology key. Nodes with the same value of a label form one
    domain.
    """

    name: str
    free: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)


class Affinity(Struct, frozen=True):
    """Required pod affinity, with one term per topology key; every term must hold.

    A pod satisfies the affinity only if every term selects it. Every term selects the job's pods of `roles`. For each
    key, the node's domain must contain a pod that satisfies the affinity. This pod may belong to the job or not. For
    each key, `present` has the domains with such pods that do not belong to the job. A node that lacks one of the keys
    is refused. As long as no domain contains a pod that satisfies the affinity, a pod that satisfies its own affinity,
    because its role is in `roles`, may go to any node that has all the keys.
    """

    keys: tuple[str, ...]
    roles: frozenset[str]
    present: Mapping[str, frozenset[str]] = field(default_factory=dict)


class AntiAffinity(Struct, frozen=True):
    """Required pod anti-affinity: the domain of the node must not contain a pod of these roles.

    The rule applies to both roles, even if only one role states it. A node without the key is not affected by the rule.
    """

    key: str
    roles: frozenset[str]


class TopologySpread(Struct, frozen=True):
    """A topology spread constraint with DoNotSchedule.

    The constraint counts pods of `roles` on `eligible` nodes, plus the `present` pods of each domain. A pod may go to a
    node if count + own - smallest <= `max_skew`. `count` is the number of counted pods in the node's domain, and `own`
    is 1 if the pod's own role is counted. `smallest` is the smallest count of all domains with eligible nodes, or 0 if
    there are fewer than `min_domains` domains. A node without the key does not admit pods of the role.
    """

    key: str
    max_skew: int
    roles: frozenset[str]
    eligible: frozenset[str]
    present: Mapping[str, int] = field(default_factory=dict)
    min_domains: int = 1


class Role(Struct, frozen=True):
    """Equal pods: their number, the request of each (with 1 of the resource `pods`), and the nodes that admit them."""

    name: str
    count: int
    request: Mapping[str, int]
    nodes: frozenset[str]
    affinity: Affinity | None = None
    anti_affinity: tuple[AntiAffinity, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
