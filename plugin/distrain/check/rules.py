"""The rules of a job's pods about other pods: affinity, anti-affinity and topology spread, ready to be matched.

Matching is kube-scheduler's, of its plugins InterPodAffinity and PodTopologySpread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.check import labels
from distrain.check.admission import labels_match, untolerated
from distrain.check.labels import Labels
from distrain.check.ports import HostPort, PortResources, host_ports
from distrain.check.volumes import VolumeRule
from distrain.job import Job, PodRole
from distrain.solver.problem import Near

# Kubernetes gives each namespace this label.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


class Namespaces(Struct, frozen=True):
    """The labels of namespaces; None where they could not be read, and each has only the one that Kubernetes gives."""

    known: Mapping[str, Labels] | None = None

    def labels_of(self, name: str) -> Labels | None:
        return {NAMESPACE_LABEL: name} if self.known is None else self.known.get(name)


UNREAD = Namespaces()


class Term(Struct, frozen=True):
    """A term about pods that a selector selects, in some namespaces, in the same domain of a topology key."""

    key: str
    selector: kube.LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: kube.LabelSelector | None

    def about(self, namespace: str, namespaces: Namespaces, own: Labels) -> bool:
        """Tell whether it is about a pod of this namespace with these labels."""
        return self._is_in(namespace, namespaces) and labels.selects(self.selector, own)

    def _is_in(self, namespace: str, namespaces: Namespaces) -> bool:
        if namespace in self.namespaces or labels.is_empty(self.namespace_selector):
            return True
        found = namespaces.labels_of(namespace)
        return found is not None and labels.selects(self.namespace_selector, found)


class RoleRules(Struct, frozen=True):
    """What the pods of one role ask of other pods, of ports, and of the volumes that they use.

    `beside` are the pods that its volumes tie it to, and `keys` the topology keys of all its rules.
    """

    role: PodRole
    labels: Labels
    near: tuple[Term, ...]
    apart: tuple[Term, ...]
    spread: tuple[kube.Spread, ...]
    ports: frozenset[HostPort]
    volumes: tuple[VolumeRule, ...] = ()
    beside: Near | None = None
    keys: frozenset[str] = frozenset()

    def counted(self, namespace: str, namespaces: Namespaces, own: Labels) -> bool:
        """Tell whether a pod is one that this role's affinity is about: it has to match every term."""
        return bool(self.near) and all(term.about(namespace, namespaces, own) for term in self.near)

    def eligible(self, node: kube.Node, spread: kube.Spread) -> bool:
        """Tell whether a spread constraint counts the pods of a node."""
        found = node.metadata.labels or {}
        if any(each.topology_key not in found for each in self.spread):
            return False
        if spread.node_affinity_policy != "Ignore" and not labels_match(node, self.role.spec):
            return False
        return spread.node_taints_policy != "Honor" or not untolerated(node, self.role.spec)


class JobRules(Struct, frozen=True):
    """The rules of a job's roles, by the role's name, and what is to be known to match them.

    `priorities` are the lowest and the highest of its pods: one that is nominated for a node goes before those of the
    job that do not have a higher one.
    """

    namespace: str
    roles: Mapping[str, RoleRules] = field(default_factory=dict)
    namespaces: Namespaces = UNREAD
    priorities: tuple[int, int] = (0, 0)
    exclusive_claims: frozenset[str] = frozenset()

    @property
    def ports(self) -> PortResources:
        return PortResources(role.ports for role in self.roles.values())

    @property
    def keys(self) -> frozenset[str]:
        return frozenset().union(*(role.keys for role in self.roles.values()))


def rules_of(
    job: Job,
    namespace: str,
    namespaces: Namespaces = UNREAD,
    *,
    priorities: tuple[int, int] = (0, 0),
    volumes: Mapping[str, tuple[VolumeRule, ...]] | None = None,
    exclusive_claims: frozenset[str] = frozenset(),
    beside: Mapping[str, Near] | None = None,
) -> JobRules:
    """Read the rules of a job's pods, which are as the API server stores them."""
    roles = {
        role.name: _role_rules(role, namespace, (volumes or {}).get(role.name, ()), (beside or {}).get(role.name))
        for role in job.roles
    }
    return JobRules(namespace, roles, namespaces, priorities, exclusive_claims)


def terms(rules: kube.PodAffinity | None, namespace: str, own: Labels | None = None) -> tuple[Term, ...]:
    """Return the required terms of a pod of this namespace, which is meant where a term names none.

    The API server has put a pod's own labels into its selectors; of one that is yet to be created `own` are those.
    """
    return tuple(_term(term, namespace, own or {}) for term in (rules and rules.required) or ())


def unknown_labels(job: Job) -> Iterator[str]:
    """Name the labels in the roles' rules that nobody knows before the job's pods are there."""
    varying = frozenset().union(*(role.varying for role in job.roles))
    for role in job.roles:
        affinity = role.spec.affinity or kube.Affinity()
        of_pods = [each for each in (affinity.pod_affinity, affinity.pod_anti_affinity) if each]
        rules: list[kube.PodTerm | kube.Spread] = [term for each in of_pods for term in each.required or ()]
        rules += _spread(role)
        for key in sorted({key for rule in rules for key in _keys_of(rule)} & varying):
            yield f"label {key} in the rules of the {role.name}"


def _keys_of(rule: kube.PodTerm | kube.Spread) -> Iterator[str]:
    selector = rule.label_selector or kube.LabelSelector()
    yield from selector.match_labels or ()
    yield from (each.key for each in selector.match_expressions or ())
    yield from rule.match_label_keys or ()
    yield from (rule.mismatch_label_keys or ()) if isinstance(rule, kube.PodTerm) else ()


def _role_rules(role: PodRole, namespace: str, volumes: tuple[VolumeRule, ...], beside: Near | None) -> RoleRules:
    affinity = role.spec.affinity or kube.Affinity()
    near = terms(affinity.pod_affinity, namespace, role.labels)
    apart = terms(affinity.pod_anti_affinity, namespace, role.labels)
    spread = tuple(_spread(role))
    keys = {term.key for term in (*near, *apart)} | {each.topology_key for each in spread}
    keys |= set(beside.keys if beside else ())
    ports = host_ports(role.spec)
    return RoleRules(role, role.labels, near, apart, spread, ports, volumes, beside, frozenset(keys))


def _spread(role: PodRole) -> Iterator[kube.Spread]:
    for spread in role.spec.topology_spread_constraints or ():
        if spread.when_unsatisfiable != "ScheduleAnyway":
            selector = _merged(spread.label_selector, spread.match_label_keys, "In", role.labels)
            yield replace(spread, label_selector=selector)


def _term(term: kube.PodTerm, namespace: str, own: Labels) -> Term:
    selector = _merged(term.label_selector, term.match_label_keys, "In", own)
    selector = _merged(selector, term.mismatch_label_keys, "NotIn", own)
    named = frozenset(term.namespaces or ())
    if not named and term.namespace_selector is None:
        named = frozenset([namespace])
    return Term(term.topology_key, selector, named, term.namespace_selector)


def _merged(
    selector: kube.LabelSelector | None, keys: Sequence[str] | None, operator: str, own: Labels
) -> kube.LabelSelector | None:
    """Return the selector with the pod's own values of these labels; one that it lacks asks for nothing."""
    if selector is None or not keys:
        return selector
    more = [kube.Requirement(key, operator, [own[key]]) for key in keys if key in own]
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *more])
