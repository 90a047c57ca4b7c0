"""The scheduling problem of a check: pods to be placed on nodes, as numbers and names, without objects of the API.

A role's rules are about the job's own pods. The cluster's pods are accounted for in the nodes that admit the role, in
the free amounts of the nodes, and in the `present` pods of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Node(Struct, frozen=True):
    """A node and what is free on it; `pods` among the resources counts its free pod slots.

    `labels` are those that a rule of some role names as a topology key: nodes of one value are one domain.
    """

    name: str
    free: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)


class Near(Struct, frozen=True):
    """Required affinity to pods: a term per topology key, which all have to hold.

    A pod counts only if it matches every term; `roles` are those whose pods do. For each key the node's domain has to
    hold a pod that counts: one of the job's, or another one, whose domains `present` gives per key. A node without one
    of the keys never does. The first pod of a group goes to any node that has all the keys: where no pod that counts
    stands in any domain, and the role is itself among `roles`.
    """

    keys: tuple[str, ...]
    roles: frozenset[str]
    present: Mapping[str, frozenset[str]] = field(default_factory=dict)


class Apart(Struct, frozen=True):
    """Required anti-affinity: no pod of these roles in the node's domain.

    It binds both sides, whichever of them it is given on. A node without the key has no domain, and nothing is apart
    there.
    """

    key: str
    roles: frozenset[str]


class Spread(Struct, frozen=True):
    """A topology spread constraint with DoNotSchedule.

    Counted are pods of `roles` on `eligible` nodes, beside the `present` ones of each domain. A pod may go to a node
    where the domain's count, plus one if its own role is counted, less the smallest count of all eligible nodes'
    domains (0 where there are fewer domains than `min_domains`) is at most `max_skew`. A node without the key does not
    admit the role.
    """

    key: str
    max_skew: int
    roles: frozenset[str]
    eligible: frozenset[str]
    present: Mapping[str, int] = field(default_factory=dict)
    min_domains: int = 1


class Role(Struct, frozen=True):
    """Pods that are alike: how many, what each asks for (one of `pods` included), and the nodes that admit them."""

    name: str
    count: int
    request: Mapping[str, int]
    nodes: frozenset[str]
    near: Near | None = None
    apart: tuple[Apart, ...] = ()
    spread: tuple[Spread, ...] = ()
