"""Say what a user can do when a job does not fit: one sentence that names a value, the finding and the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distrain import capacity, kube
from distrain.admission import NO_MATCH, UNTOLERATED, refusal, untolerated
from distrain.amounts import Units, rounded_down, text, units
from distrain.capacity import Judgement
from distrain.job import LAUNCHER, Job, PodRole
from distrain.snapshot import Snapshot

SECTIONS = {LAUNCHER: "launcher"}


def next_step(verdict: str, job: Job, snapshot: Snapshot, now: Judgement, emptied: Judgement, gpu_resource: str) -> str:
    if verdict == "fits":
        return ""
    if verdict == "depends":
        return _depends(now)
    if verdict == "busy":
        return _busy(now)
    empty = snapshot.emptied()
    for role in (job.workers, job.launcher):
        if not capacity.room(empty.free(), empty.role(role)):
            return _nowhere(role, empty, gpu_resource)
    return _too_many(job, emptied)


def total(snapshot: Snapshot, resource: str) -> int:
    return sum(_allocatable(node, resource) for node in snapshot.nodes)


def _depends(now: Judgement) -> str:
    surely = f"Lower workers.replicas to {now.sure} to be sure" if now.sure else "Free some room to be sure"
    return (
        f"workers.replicas: {now.workers} workers and the launcher fit, but not in every order and place that the "
        f"scheduler may choose. {surely}."
    )


def _busy(now: Judgement) -> str:
    words = f"workers.replicas: {now.workers} workers fit only once other pods end or nodes come back"
    if now.most:
        return f"{words}; there is room for {now.most} now. Lower workers.replicas to {now.most}, or wait."
    return f"{words}; there is room for none now. Wait."


def _too_many(job: Job, emptied: Judgement) -> str:
    workers = job.workers
    if not emptied.most:
        return "launcher: beside it no worker fits, even on empty nodes. Lower what launcher or workers ask for."
    return (
        f"workers.replicas: {workers.replicas} workers of {_asked(workers)} each do not fit, even on empty nodes; "
        f"these hold {emptied.most}. Lower workers.replicas to {emptied.most}."
    )


def _nowhere(role: PodRole, empty: Snapshot, gpu_resource: str) -> str:
    """Say why no node holds even one pod of the role, all other pods aside."""
    if not empty.nodes:
        return "The cluster has no nodes. Add one."
    free = {node.name: node.free for node in empty.free()}
    large = [node for node in empty.nodes if _holds(free[node.metadata.name], role.request)]
    if not large:
        return _too_large(role, empty, free, gpu_resource)
    return _kept_off(role, large)


def _too_large(role: PodRole, empty: Snapshot, free: Mapping[str, Mapping[str, int]], gpu_resource: str) -> str:
    for resource, amount in role.request.items():
        most = max((amounts.get(resource, 0) for amounts in free.values()), default=0)
        if most < amount:
            return _more_than_any(role, resource, most, gpu_resource)
    return f"{_section(role)}: no node has {_asked(role)} at once. Lower one of them."


def _asked(role: PodRole) -> str:
    asked = [f"{text(name, amount)} {name}" for name, amount in sorted(role.request.items()) if name != "pods"]
    return " and ".join(asked) or "no request"


def _more_than_any(role: PodRole, resource: str, most: int, gpu_resource: str) -> str:
    if resource == "pods":
        return f"{_section(role)}: no node takes another pod, even when empty. Add a node, or raise its limit of pods."
    path, asked = _path(role, resource, gpu_resource), text(resource, role.request[resource])
    if most > 0:
        had = rounded_down(resource, most)
        return f"{path}: {asked} {resource} asked, but no node has more than {had}. Lower {path} to {had} or less."
    return f"{path}: {asked} {resource} asked, but no node has any. {_without(resource, gpu_resource)}"


def _without(resource: str, gpu_resource: str) -> str:
    if resource != gpu_resource:
        return f"Add nodes with {resource}."
    return "Add GPU nodes, correct workers.gpuResource, or set workers.gpus to 0 to train on the CPU."


def _kept_off(role: PodRole, large: Sequence[kube.Node]) -> str:
    causes = {refusal(node, role.spec) for node in large}
    nodes = f"{len(large)} node{'s' if len(large) > 1 else ''} would do, but for"
    if UNTOLERATED in causes:
        taints = ", ".join(sorted({_taint(taint) for node in large for taint in untolerated(node, role.spec)}))
        # Only workers have tolerations among the values.
        if role.name == LAUNCHER:
            return f"launcher: {nodes} taints: {taints}. Add a node without."
        return f"workers.tolerations: {nodes} taints: {taints}. Tolerate them."
    assert causes == {NO_MATCH}
    return f"workers.nodeSelector: {nodes} labels. Correct nodeSelector or affinity."


def _holds(free: Mapping[str, int], request: Units) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in request.items() if amount > 0)


def _path(role: PodRole, resource: str, gpu_resource: str) -> str:
    key = "gpus" if resource == gpu_resource else resource
    return f"{_section(role)}.{key}"


def _section(role: PodRole) -> str:
    return SECTIONS.get(role.name, "workers")


def _taint(taint: kube.Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _allocatable(node: kube.Node, resource: str) -> int:
    return units(resource, (node.status.allocatable or {}).get(resource, 0))
