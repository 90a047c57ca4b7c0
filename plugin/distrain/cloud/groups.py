"""Size the two node groups: whole workers on GPU nodes, and the run's other pods on nodes without GPUs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from distrain import kube
from distrain.check.cluster_state import ClusterState, judge, over, take
from distrain.cloud import labels
from distrain.cloud.needs import Needs
from distrain.errors import ValuesError
from distrain.instances.nodes import node
from distrain.instances.reserved import offered
from distrain.instances.table import FLAG, INSTANCE_TYPE, Instance, provider_name, with_gpus, without_gpus
from distrain.kube.quantities import Units, rounded_down, text
from distrain.scheduler.constraints import constraints_of
from distrain.scheduler.taint_toleration import tolerates
from distrain.solver import capacity
from distrain.solver.capacity import Judgement
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

GPU, SYSTEM = "gpu", "system"
NAMESPACE = "default"


class Group(Struct, frozen=True):
    """A node group: its instance type, number of nodes during a run, labels that it sets, taint, and networks."""

    name: str
    instance: Instance
    nodes: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taint: kube.Taint | None = None
    efa: bool = False

    def made(self, number: int, zone: str, devices: Mapping[str, int] | None = None) -> list[kube.Node]:
        """Return `number` nodes of the group as Node objects."""
        taints = [self.taint] if self.taint else []
        own = {**labels.provided(self.instance, self.name, zone), **self.labels}
        return [
            node(f"{self.name}-{each}", self.instance, efa=self.efa, labels=own, taints=taints, devices=devices)
            for each in range(1, number + 1)
        ]


class Groups(Struct, frozen=True):
    """The group of GPU nodes, the group of all other nodes, and the number of workers that fit on each GPU node."""

    gpu: Group
    system: Group
    per_node: int


def gpu_group(needs: Needs, instance: Instance, zone: str, *, efa: bool) -> Group:
    """Return the group of GPU nodes; its number of nodes is set later.

    Raise ValuesError if workers.nodeSelector contains a label that nodes of this type cannot have.
    """
    given = labels.provided(instance, GPU, zone)
    labels.refuse_lacking("workers.nodeSelector", needs.selector, given)
    own = labels.to_set(needs.selector, given)
    return Group(GPU, instance, labels=own, taint=needs.taint, efa=efa)


def workers_per_node(needs: Needs, group: Group, zone: str) -> int:
    """Count the workers that fit on one node of the group."""
    state = _state(needs.job, group.made(1, zone, _devices(needs, group)))
    return capacity.room(state.free(), state.role(needs.worker))


def sized(needs: Needs, group: Group, zone: str) -> Groups:
    """Return both groups with their numbers of nodes. Raise ValuesError if no worker fits on a node of this type."""
    per_node = workers_per_node(needs, group, zone)
    if not per_node:
        raise ValuesError(_too_small(needs, group, zone))
    system = _system_group(needs, group, zone)

    def judged(number: int) -> Judgement:
        nodes = [*group.made(number, zone, _devices(needs, group)), *system.made(system.nodes, zone)]
        return judge(needs.job, _state(needs.job, nodes))

    most, fewest = needs.workers, -(-needs.workers // per_node)
    found = judged(most)
    if not found.certain:
        raise ValuesError(_uncertain(needs, group, is_possible=found.possible))
    # If the workers fit on some number of nodes, they fit on any larger number, so a binary search finds the smallest.
    number = bisect_left(range(most), True, lo=fewest, key=lambda each: judged(each).certain)
    return Groups(_numbered(group, number), system, -(-needs.workers // number))


def _uncertain(needs: Needs, group: Group, *, is_possible: bool) -> str:
    """Return the message that the workers perhaps do not fit even if each worker has its own node."""
    if is_possible and not group.taint:
        room = "the GPU nodes get no taint, because the workers tolerate none, and so other pods of the run may use"
        step = f"add a toleration of {needs.gpu_resource}, or lower workers.cpu and workers.memory"
        return f"workers.tolerations: {room} the CPUs and memory that a worker needs; {step}"
    words = f"{needs.workers} workers do not fit on {needs.workers} nodes of type {group.instance.type}"
    return f"workers.replicas: {words}; run `helm distrain check --offline --assume-nodes` to see why"


def _system_group(needs: Needs, gpu: Group, zone: str) -> Group:
    """Return the node group for all pods that do not run on the GPU nodes, including the operators' pods."""
    given = {**labels.provided(gpu.instance, gpu.name, zone), **gpu.labels}
    roles = [role for role in needs.job.roles if role not in needs.gpu_roles and role.replicas]
    roles = [role for role in roles if not _runs_on(gpu, role, given)]
    types = without_gpus(gpu.instance.provider)
    own: dict[str, str] = {}
    for role in roles:
        path = Wording(needs.job, needs.gpu_resource).place(role, "nodeSelector")
        common = labels.provided(types[0], SYSTEM, zone)
        common.pop(INSTANCE_TYPE)
        labels.refuse_lacking(path, role.spec.node_selector or {}, common)
        own |= labels.to_set(role.spec.node_selector or {}, common)
    for instance in types:
        group = Group(SYSTEM, instance, labels=own)
        state = _state(needs.job, group.made(1, zone))
        held = [capacity.room(state.free(), state.role(role)) for role in roles]
        if all(held):
            nodes = sum(-(-role.replicas // most) for role, most in zip(roles, held, strict=True))
            return _numbered(group, max(1, nodes))
    largest = types[-1]
    words = f"its pods do not fit on {largest.type}, the largest known type without GPUs; lower their requests"
    raise ValuesError(f"{Wording(needs.job, needs.gpu_resource).place(roles[0])}: {words}")


def _runs_on(gpu: Group, role: PodRole, given: Mapping[str, str]) -> bool:
    """Tell whether the role's pods can run only on nodes like the GPU nodes.

    This is so if the role has a nodeSelector that matches the GPU nodes' labels `given`, and if the pods tolerate the
    GPU nodes' taint.
    """
    selector = role.spec.node_selector or {}
    is_admitted = gpu.taint is None or tolerates(role.spec, gpu.taint)
    return bool(selector) and is_admitted and all(given.get(key) == value for key, value in selector.items())


def _devices(needs: Needs, group: Group) -> Mapping[str, int]:
    """Return a node's number of InfiniBand devices under each of the resource names that the values request."""
    return dict.fromkeys(needs.rdma, group.instance.infiniband) if group.instance.infiniband else {}


def _state(job: Job, nodes: Sequence[kube.Node]) -> ClusterState:
    return take(nodes, over(()), constraints_of(job, NAMESPACE))


def _numbered(group: Group, nodes: int) -> Group:
    return Group(group.name, group.instance, nodes, group.labels, group.taint, group.efa)


def _too_small(needs: Needs, group: Group, zone: str) -> str:
    """Return the message for an instance type on which no worker fits.

    The message names the types on which a worker fits.
    """
    instance, efa = group.instance, group.efa
    has = _offer(needs, instance, efa=efa)
    asked_for = sorted(needs.worker.request.items(), key=lambda each: (each[0] != needs.gpu_resource, each))
    short = [name for name, amount in asked_for if _lacks(has, name, amount)]
    others = [each.type for each in with_gpus(instance.provider) if _held(needs, each, zone, efa=efa)]
    known = f"known type of {provider_name(instance.provider)}"
    change = f"change the workers' requests, nodeSelector or affinity, because a worker fits on no {known}"
    step = f"name one of {', '.join(others)}" if others else change
    if not short:
        return f"{FLAG}: the workers' affinity or nodeSelector excludes {instance.type}; {step}"
    name, paths = short[0], Wording(needs.job, needs.gpu_resource)
    path = paths.amount(needs.worker, name)[1]
    asked, offer = text(name, needs.worker.request[name]), rounded_down(name, has.get(name, 0))
    words = f"no worker fits on {instance.type}: {path} requests {asked} {name}, but a node offers {offer}"
    return f"{FLAG}: {words}; {step}"


def _lacks(has: Mapping[str, int], name: str, amount: int) -> bool:
    return name not in ("ephemeral-storage", "pods") and has.get(name, 0) < amount


def _held(needs: Needs, instance: Instance, zone: str, *, efa: bool) -> int:
    """Count the workers that fit on a node of this type.

    The number is 0 if workers.nodeSelector contains a label that the node cannot have.
    """
    if labels.lacking(needs.selector, labels.provided(instance, GPU, zone)):
        return 0
    return workers_per_node(needs, gpu_group(needs, instance, zone, efa=efa), zone)


def holding(needs: Needs, provider: str, zone: str, *, efa: bool) -> dict[Instance, int]:
    """Return the provider's types on which a worker fits, each with the number of workers per node.

    Raise ValuesError if a worker fits on no type.
    """
    held = {each: _held(needs, each, zone, efa=efa) for each in with_gpus(provider) if each.efa or not efa}
    found = {each: number for each, number in held.items() if number}
    if not found:
        _refuse_label_of_none(needs, provider, zone)
        raise ValuesError(_none_holds(needs, provider, efa=efa))
    return found


def _refuse_label_of_none(needs: Needs, provider: str, zone: str) -> None:
    """Raise ValuesError if no type of the provider can have the labels of workers.nodeSelector."""
    each = [labels.provided(instance, GPU, zone) for instance in with_gpus(provider)]
    if all(labels.lacking(needs.selector, given) for given in each):
        labels.refuse_lacking("workers.nodeSelector", needs.selector, each[0])


def _none_holds(needs: Needs, provider: str, *, efa: bool) -> str:
    words = f"no known instance type of {provider_name(provider)}"
    for name, amount in sorted(needs.worker.request.items()):
        most = max(_offer(needs, each, efa=efa).get(name, 0) for each in with_gpus(provider))
        if _lacks({name: most}, name, amount):
            path = Wording(needs.job, needs.gpu_resource).amount(needs.worker, name)[0]
            least = f"{words} offers more than {rounded_down(name, most)}"
            return f"{path}: a worker requests {text(name, amount)} {name}, but {least}; lower it"
    asked = ", ".join(f"{text(name, amount)} {name}" for name, amount in _listed(needs))
    return f"workers: {words} fits a worker ({asked}); lower these requests, or correct the nodeSelector or affinity"


def _listed(needs: Needs) -> list[tuple[str, int]]:
    return [(name, amount) for name, amount in sorted(needs.worker.request.items()) if name != "pods"]


def _offer(needs: Needs, instance: Instance, *, efa: bool) -> Units:
    return {**offered(instance, efa=efa), **_devices(needs, Group(GPU, instance))}
