"""Answer whether a job fits the cluster: the verdict, what it rests on, and what it could not judge.

`fits` is given only when the scheduler places every pod whatever order it takes (see capacity). What the verdict
leaves out, such as quotas or affinity between pods, stands under `unseen` and does not change it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from distrain import advice, capacity, kube
from distrain.admission import refusal
from distrain.amounts import Units, text
from distrain.capacity import Judgement
from distrain.cluster import Cluster
from distrain.job import Job, PodRole
from distrain.snapshot import Snapshot, take

EXIT_CODES = {"fits": 0, "depends": 12, "busy": 10, "impossible": 11}


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of the workers: needed by all of them, free on nodes that admit them, and on all nodes in total."""

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
    """The answer; `fit` counts launchers that fit alone, and workers that fit beside one launcher."""

    verdict: str
    pods: list[Pods]
    gpus: Gpus
    fit: dict[str, int]
    reasons: list[Reason]
    unseen: list[str]
    next: str

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def check(cluster: Cluster, job: Job, namespace: str, gpu_resource: str) -> Report:
    """Read the cluster and judge the job; raises UnreachableError when nodes or pods cannot be read."""
    snapshot = take(cluster.nodes(), cluster.pods(), namespace)
    unseen = [*not_judged(job), *cluster.limits_on(namespace), *_other_pods(snapshot)]
    return report(job, snapshot, gpu_resource, unseen)


def report(job: Job, snapshot: Snapshot, gpu_resource: str, unseen: list[str]) -> Report:
    now, emptied = judge(job, snapshot), judge(job, snapshot.emptied())
    verdict = _verdict(now, emptied)
    return Report(
        verdict=verdict,
        pods=[Pods(role.name, role.replicas, _readable(role.request)) for role in job.roles],
        gpus=_gpus(job, snapshot, gpu_resource),
        fit={job.launcher.name: _alone(job.launcher, snapshot), job.workers.name: now.most or 0},
        reasons=[] if now.possible else _reasons(job, snapshot),
        unseen=unseen,
        next=advice.next_step(verdict, job, snapshot, now, emptied, gpu_resource),
    )


def summary(report: Report) -> list[str]:
    """Say the report in a few lines; the first is the answer."""
    lines = [f"{report.verdict}: {report.next or _fitting(report)}"]
    if report.reasons:
        causes = ", ".join(f"{reason.nodes} {reason.reason}" for reason in report.reasons)
        lines.append(f"  on the nodes: {causes}")
    if report.unseen:
        lines.append(f"  not judged: {'; '.join(report.unseen)}")
    return lines


def _fitting(report: Report) -> str:
    gpus = report.gpus
    free = f"; {gpus.free} of {gpus.total} GPUs free" if gpus.needed else ""
    return " and ".join(_described(pods, gpus.resource) for pods in reversed(report.pods)) + free


def _described(pods: Pods, gpu_resource: str) -> str:
    """Return "2 workers of 4 nvidia.com/gpu each"; cpu and memory only where there are no GPUs."""
    plural = "s" if pods.replicas != 1 else ""
    if gpu_resource in pods.requests:
        return f"{pods.replicas} {pods.role}{plural} of {pods.requests[gpu_resource]} {gpu_resource} each"
    asked = " and ".join(f"{amount} {resource}" for resource, amount in pods.requests.items())
    return f"{pods.replicas} {pods.role}{plural}" + (f" of {asked}{' each' if plural else ''}" if asked else "")


def judge(job: Job, snapshot: Snapshot) -> Judgement:
    return capacity.judge(snapshot.free(), snapshot.role(job.launcher), snapshot.role(job.workers))


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
    if any(port.host_port for container in spec.containers or () for port in container.ports or ()):
        yield "host ports"
    if spec.scheduler_name not in (None, "", "default-scheduler"):
        yield f"the rules of scheduler {spec.scheduler_name}"


def _other_pods(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.pending:
        yield f"pods that wait for a node and may take room first: {snapshot.pending}"
    if snapshot.repelling:
        yield f"running pods whose anti-affinity may keep others off their nodes: {snapshot.repelling}"


def _verdict(now: Judgement, emptied: Judgement) -> str:
    if now.certain:
        return "fits"
    if now.possible:
        return "depends"
    return "busy" if emptied.possible else "impossible"


def _readable(request: Units) -> dict[str, str]:
    return {resource: text(resource, amount) for resource, amount in sorted(request.items()) if resource != "pods"}


def _gpus(job: Job, snapshot: Snapshot, resource: str) -> Gpus:
    admitting = snapshot.role(job.workers).nodes
    free = sum(max(0, node.free.get(resource, 0)) for node in snapshot.free() if node.name in admitting)
    needed = job.workers.replicas * job.workers.request.get(resource, 0)
    return Gpus(resource, needed, free, advice.total(snapshot, resource))


def _alone(role: PodRole, snapshot: Snapshot) -> int:
    return capacity.room(snapshot.free(), snapshot.role(role))


def _reasons(job: Job, snapshot: Snapshot) -> list[Reason]:
    """Count the nodes per cause that keeps the next pod away, once the cluster is as full with the job as it gets."""
    launcher, workers = snapshot.role(job.launcher), snapshot.role(job.workers)
    free = snapshot.free()
    home = capacity.best_launcher_node(free, launcher, workers)
    blocked, role = (job.launcher, launcher) if home is None else (job.workers, workers)
    causes: Counter[str] = Counter()
    for node, room in zip(snapshot.nodes, free, strict=True):
        words = refusal(node, blocked.spec)
        left = capacity.with_pod(room, launcher) if home is room else room
        causes.update([words] if words else capacity.shortages(left, role))
    return [Reason(count, words) for words, count in sorted(causes.items())]
