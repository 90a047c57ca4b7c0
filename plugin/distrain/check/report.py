"""Answer whether a job fits the cluster: the verdict, what it rests on, and what it could not judge.

`fits` is given only when the scheduler places every pod whatever order it takes (see capacity). What the verdict
leaves out, such as quotas or affinity between pods, stands under `unseen` and does not change it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from distrain import kube
from distrain.amounts import Units, text
from distrain.check import advice, capacity
from distrain.check.admission import refusal
from distrain.check.candidates import candidates, unread
from distrain.check.capacity import Judgement
from distrain.check.snapshot import Snapshot, take
from distrain.cluster import Cluster
from distrain.job import Job, PodRole
from distrain.wording import listed

# How vendors name their GPUs: nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915, nvidia.com/mig-1g.5gb.
GPU = re.compile(r"gpu|^nvidia\.com/")
EXIT_CODES = {"fits": 0, "depends": 12, "busy": 10, "impossible": 11}


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of the job: needed by all its pods, free on nodes that admit those, and on all nodes in total."""

    resource: str
    needed: int
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one role and what each requests, as a person would write it."""

    role: str
    replicas: int
    requests: dict[str, str]


@dataclass(frozen=True, slots=True)
class Reason:
    """Nodes that take no further pod, and why, in the scheduler's words."""

    nodes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The answer.

    `fit` counts the main role's pods that fit beside all the others, and of each other role those that fit alone.
    `unseen` names what was not judged, `assumed` what was taken to be otherwise than it is now.
    """

    verdict: str
    pods: list[Pods]
    gpus: Gpus
    fit: dict[str, int]
    reasons: list[Reason]
    unseen: list[str]
    assumed: list[str]
    next: str

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(
    cluster: Cluster, job: Job, namespace: str, gpu_resource: str | None = None, release: str | None = None
) -> Report:
    """Read the cluster and judge the job; raises UnreachableError when nodes or pods cannot be read.

    The GPUs' name is guessed from the job where no value says it. Pods of `release` make room for its own job.
    """
    nodes = cluster.nodes()
    chosen = candidates(job, nodes)
    snapshot = cluster.over_pods(lambda pods: take(nodes, pods, namespace, release), chosen)
    elsewhere = [] if chosen is None else [unread(len(nodes) - len(chosen))]
    unseen = [*not_judged(job), *elsewhere, *cluster.limits_on(namespace), *_other_pods(snapshot)]
    return report(job, snapshot, gpu_resource or _gpu_resource(job), unseen)


def report(job: Job, snapshot: Snapshot, gpu_resource: str, unseen: list[str]) -> Report:
    now = judge(job, snapshot)
    emptied = now if now.possible else judge(job, snapshot.emptied())
    verdict = _verdict(now, emptied)
    alone = {role.name: capacity.room(snapshot.free(), snapshot.role(role)) for role in job.others}
    return Report(
        verdict=verdict,
        pods=[Pods(role.name, role.replicas, _readable(role.request)) for role in job.roles],
        gpus=_gpus(job, snapshot, gpu_resource),
        fit={**alone, job.main.name: now.most or 0},
        reasons=[] if now.possible else _reasons(job, snapshot),
        unseen=unseen,
        assumed=list(_assumed(snapshot)),
        next=advice.next_step(verdict, job, snapshot, now, emptied, gpu_resource),
    )


def summary(report: Report, job: Job, *, answer_last: bool = False) -> list[str]:
    """Say the report in a few lines; the first is the answer, or the last, where only a log's end is kept."""
    answer = f"{report.verdict}: {report.next or _fitting(report, job)}"
    lines = []
    if report.reasons:
        causes = ", ".join(f"{reason.nodes} {reason.reason}" for reason in report.reasons)
        lines.append(f"  on the nodes: {causes}")
    if report.unseen:
        lines.append(f"  not judged: {'; '.join(report.unseen)}")
    if report.assumed:
        lines.append(f"  assumed: {'; '.join(report.assumed)}")
    return [*lines, answer] if answer_last else [answer, *lines]


def _fitting(report: Report, job: Job) -> str:
    gpus = report.gpus
    free = f"; {gpus.free} of {gpus.total} GPUs free" if gpus.needed else ""
    return listed([_described(role, gpus.resource) for role in reversed(job.roles)]) + free


def _described(role: PodRole, gpu_resource: str) -> str:
    """Return "2 workers of 4 nvidia.com/gpu each"; cpu and memory only where there are no GPUs."""
    requests = _readable(role.request)
    each = " each" if role.replicas != 1 else ""
    if gpu_resource in requests:
        return f"{role.pods(role.replicas)} of {requests[gpu_resource]} {gpu_resource}{each}"
    asked = listed([f"{amount} {resource}" for resource, amount in requests.items()])
    return role.pods(role.replicas) + (f" of {asked}{each}" if asked else "")


def judge(job: Job, snapshot: Snapshot) -> Judgement:
    roles = {role.name: snapshot.role(role) for role in job.roles}
    return capacity.judge(snapshot.free(), list(roles.values()), roles[job.main.name])


def not_judged(job: Job) -> list[str]:
    """Name what the pods ask for and the verdict leaves out."""
    return [f"{what} of the {role.name}" for role in job.roles for what in _beyond_us(role)]


def _beyond_us(role: PodRole) -> Iterator[str]:
    spec = role.spec
    affinity = spec.affinity or kube.Affinity()
    if any(term and term.required for term in (affinity.pod_affinity, affinity.pod_anti_affinity)):
        yield "affinity between pods"
    if any(spread.when_unsatisfiable != "ScheduleAnyway" for spread in spec.topology_spread_constraints or ()):
        yield "topology spread"
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim:
            yield f"persistent volume claim {volume.persistent_volume_claim.claim_name}"
    ports = [port for container in spec.containers or () for port in container.ports or ()]
    if any(port.host_port or spec.host_network for port in ports):
        yield "host ports"
    if spec.scheduler_name not in (None, "", "default-scheduler"):
        yield f"the rules of scheduler {spec.scheduler_name}"


def _other_pods(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.pending:
        yield f"pods that wait for a node and may take room first: {snapshot.pending}"
    if snapshot.repelling:
        yield f"running pods whose anti-affinity may keep others off their nodes: {snapshot.repelling}"


def _assumed(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.own:
        pods = "pod counts" if snapshot.own == 1 else "pods count"
        yield f"the run's own {snapshot.own} {pods} as free, since the run keeps or replaces them"


def _verdict(now: Judgement, emptied: Judgement) -> str:
    if now.certain:
        return "fits"
    if now.possible or now.undecided or emptied.undecided:
        return "depends"
    return "busy" if emptied.possible else "impossible"


def _readable(request: Units) -> dict[str, str]:
    return {resource: text(resource, amount) for resource, amount in sorted(request.items()) if resource != "pods"}


def _gpu_resource(job: Job) -> str:
    asked = {resource for role in job.roles for resource in role.request if "/" in resource}
    return min((resource for resource in asked if GPU.search(resource)), default="nvidia.com/gpu")


def _gpus(job: Job, snapshot: Snapshot, resource: str) -> Gpus:
    asking = [role for role in job.roles if role.request.get(resource)] or [job.main]
    admitting = frozenset().union(*(snapshot.role(role).nodes for role in asking))
    free = sum(max(0, node.free.get(resource, 0)) for node in snapshot.free() if node.name in admitting)
    needed = sum(role.replicas * role.request.get(resource, 0) for role in asking)
    return Gpus(resource, needed, free, advice.total(snapshot, resource))


def _reasons(job: Job, snapshot: Snapshot) -> list[Reason]:
    """Count the nodes per cause that keeps the next pod away, once the cluster is as full with the job as it gets."""
    roles = {role.name: snapshot.role(role) for role in job.roles}
    main = roles.pop(job.main.name)
    left, unplaced = capacity.beside(snapshot.free(), list(roles.values()), main)
    blocked = unplaced or main
    spec = next(role.spec for role in job.roles if role.name == blocked.name)
    causes: Counter[str] = Counter()
    for node, room in zip(snapshot.nodes, left, strict=True):
        words = refusal(node, spec)
        causes.update([words] if words else capacity.shortages(room, blocked))
    return [Reason(count, words) for words, count in sorted(causes.items())]
