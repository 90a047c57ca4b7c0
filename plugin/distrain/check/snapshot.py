"""What the cluster's nodes hold, summed up from its nodes and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from distrain import kube
from distrain.amounts import Units, allocatable
from distrain.check import marks as other_pods
from distrain.check import volumes
from distrain.check.admission import recovered, refusal
from distrain.check.load import EVERYWHERE, Counts, Load, Loads, summed
from distrain.check.rules import JobRules, RoleRules
from distrain.job import PodRole
from distrain.kube.pods import CountedPod
from distrain.solver.problem import Apart, Node, Role

# Gives what one makes of all pods, whoever has read them.
OverPods = Callable[[Callable[[Iterable[CountedPod]], Loads]], Loads]


class Snapshot(Struct, frozen=True):
    """The nodes, and what pods take of them: all pods, and those that stay whatever ends."""

    nodes: Sequence[kube.Node]
    taken: Load
    staying: Load
    rules: JobRules
    counts: Counts = field(default_factory=Counts)
    _free: list[Node] = field(default_factory=list)
    _roles: dict[str, Role] = field(default_factory=dict)

    def emptied(self) -> Snapshot:
        """Return the cluster with only DaemonSets' and static pods on it, all nodes healthy and none cordoned."""
        return Snapshot([recovered(node) for node in self.nodes], self.staying, self.staying, self.rules)

    def free(self) -> list[Node]:
        if not self._free:
            ports = self.rules.ports
            keys = self.rules.keys
            self._free.extend(
                Node(
                    node.metadata.name,
                    {**self._left(node), **ports.free(self.taken.ports.get(node.metadata.name, ()))},
                    {key: value for key, value in (node.metadata.labels or {}).items() if key in keys},
                )
                for node in self.nodes
            )
        return self._free

    def role(self, role: PodRole) -> Role:
        """Return the role with the nodes that admit its pods, and its rules about the job's own pods."""
        if role.name not in self._roles:
            self._roles[role.name] = self._judged(self.rules.roles[role.name])
        found = self._roles[role.name]
        ports = self.rules.ports.request(self.rules.roles[role.name].ports)
        return replace(found, count=role.replicas, request={**role.request, **ports})

    def refusal(self, node: kube.Node, role: PodRole) -> str | None:
        """Return the scheduler's words for why the node takes no pod of the role, its room aside, None when it does."""
        return refusal(node, role.spec) or next(iter(self.late_refusals([node], role)), None)

    def late_refusals(self, nodes: Iterable[kube.Node], role: PodRole) -> Iterator[str | None]:
        """Yield, for each node, the words of the filters that the scheduler asks after the one about room."""
        rules = self.rules.roles[role.name]
        settled = other_pods.settle(self.taken.of(role.name), rules, self._by_name())
        own, in_use = set(volumes.claims_of(role.spec.volumes)), self.taken.claims
        for node in nodes:
            used = any(own & in_use.get(where, set()) for where in (EVERYWHERE, node.metadata.name))
            yield ((volumes.IN_USE if used else None) or volumes.refusal(node, rules.volumes) or settled.refusal(node))

    def _judged(self, rules: RoleRules) -> Role:
        role, nodes, marks = rules.role, self._by_name(), self.taken.of(rules.role.name)
        taking = [node for node in self.nodes if refusal(node, role.spec) is None]
        late = self.late_refusals(taking, role)
        admitting = [node.metadata.name for node, cause in zip(taking, late, strict=True) if cause is None]
        return Role(
            role.name,
            role.replicas,
            role.request,
            frozenset(admitting),
            near=other_pods.near(marks, rules, self.rules, nodes) or rules.beside,
            apart=_apart(rules, self.rules),
            spread=other_pods.spread(marks, rules, self.rules, nodes),
        )

    def _by_name(self) -> Mapping[str, kube.Node]:
        return {node.metadata.name: node for node in self.nodes}

    def _left(self, node: kube.Node) -> Units:
        free = allocatable(node)
        for resource, amount in self.taken.requests.get(node.metadata.name, {}).items():
            free[resource] = free.get(resource, 0) - amount
        return free


def take(nodes: Sequence[kube.Node], over_pods: OverPods, rules: JobRules, release: str | None = None) -> Snapshot:
    """Sum up what pods take of the nodes, for a job with these rules, of this release if it runs already."""
    loads = over_pods(lambda pods: summed(nodes, pods, rules, release))
    return Snapshot(nodes, loads.taken, loads.staying, rules, loads.counts)


def over(pods: Iterable[CountedPod]) -> OverPods:
    """Return the way over pods that are there already."""
    return lambda use: use(pods)


def _apart(rules: RoleRules, job: JobRules) -> tuple[Apart, ...]:
    """Return the anti-affinity between the role and the job's roles, whichever of both asks for it."""
    found: dict[str, set[str]] = {}
    for name, other in job.roles.items():
        about_other = [term for term in rules.apart if term.about(job.namespace, job.namespaces, other.labels)]
        about_us = [term for term in other.apart if term.about(job.namespace, job.namespaces, rules.labels)]
        for term in (*about_other, *about_us):
            found.setdefault(term.key, set()).add(name)
    return tuple(Apart(key, frozenset(roles)) for key, roles in sorted(found.items()))
