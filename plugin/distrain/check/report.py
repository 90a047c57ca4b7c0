"""Answer whether a job fits the cluster: the verdict, what it rests on, and what it could not judge.

`fits` is given only when the scheduler places every pod whatever order it takes (see capacity), and nothing stops them
before (see obstacles). What could not be read stands under `unseen` and does not change the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from distrain import kube
from distrain.amounts import Units, text
from distrain.check import advice, surroundings
from distrain.check.candidates import candidates, unread
from distrain.check.obstacle import IMPOSSIBLE, Obstacle
from distrain.check.obstacles import Prepared, prepare, with_quotas
from distrain.check.reasons import Reason, reasons
from distrain.check.snapshot import Snapshot, take
from distrain.job import Job
from distrain.solver import capacity
from distrain.solver.capacity import Judgement
from distrain.wording import listed

if TYPE_CHECKING:
    from distrain.api.cluster import Cluster

# How vendors name their GPUs: nvidia.com/gpu, amd.com/gpu, gpu.intel.com/i915, nvidia.com/mig-1g.5gb.
GPU = re.compile(r"gpu|^nvidia\.com/")
EXIT_CODES = {"fits": 0, "depends": 12, "busy": 10, "impossible": 11}


class Gpus(Struct, frozen=True):
    """GPUs of the job: needed by all its pods, free on nodes that admit those, and on all nodes in total."""

    resource: str
    needed: int
    free: int
    total: int


class Pods(Struct, frozen=True):
    """The pods of one role and what each requests, as a person would write it."""

    role: str
    replicas: int
    requests: dict[str, str]


class Report(Struct, frozen=True):
    """The answer.

    `undecided`: it is `depends` only because the search among the placements ended early. `fit` counts the main role's
    pods that fit beside all the others, and of each other role those that fit alone. `unseen` names what was not
    judged, `assumed` what was taken to be otherwise than it is now.
    """

    verdict: str
    undecided: bool
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
        found: dict[str, Any] = to_builtins(self)
        return found


def check(
    cluster: Cluster,
    job: Job,
    namespace: str,
    gpu_resource: str | None = None,
    release: str | None = None,
    more: Sequence[kube.Node] = (),
) -> Report:
    """Read the cluster and judge the job; raises UnreachableError when nodes or pods cannot be read.

    The GPUs' name is guessed from the job where no value says it. Pods of `release` make room for its own job, and
    nodes in `more` are taken to be there.
    """
    prepared, snapshot = examined(cluster, job, namespace, gpu_resource, release, more)
    return report(prepared, snapshot, gpu_resource or gpus_of(job), more)


def examined(
    cluster: Cluster,
    job: Job,
    namespace: str,
    gpu_resource: str | None = None,
    release: str | None = None,
    more: Sequence[kube.Node] = (),
) -> tuple[Prepared, Snapshot]:
    """Read what the judgement rests on."""
    namespace = namespace_of(job, namespace)
    around = surroundings.read(cluster, job, namespace)
    prepared = prepare(job, namespace, around, gpu_resource or gpus_of(job))
    nodes = [*cluster.nodes(), *more]
    chosen = candidates(prepared.job, nodes)
    snapshot = take(nodes, lambda use: cluster.over_pods(use, chosen), prepared.rules, release)
    elsewhere = [] if chosen is None else [unread(len(nodes) - len(chosen))]
    return replace(prepared, unseen=(*prepared.unseen, *elsewhere)), snapshot


def report(prepared: Prepared, snapshot: Snapshot, gpu_resource: str, more: Sequence[kube.Node] = ()) -> Report:
    job = prepared.job
    now = judge(job, snapshot)
    emptied = now if now.possible else judge(job, snapshot.emptied())
    placed = _verdict(now, emptied)
    if question := _open_question(prepared, snapshot, placed):
        placed = "depends"
    obstacles = with_quotas(prepared, snapshot.counts.own_request, gpu_resource)
    verdict = _with_obstacles(placed, obstacles)
    alone = {role.name: capacity.room(snapshot.free(), snapshot.role(role)) for role in job.others}
    in_the_way = next((each for each in obstacles if each.verdict == verdict), None)
    return Report(
        verdict=verdict,
        undecided=verdict == "depends" and (bool(question) or not now.possible or now.undecided),
        pods=[Pods(role.name, role.replicas, readable(role.request)) for role in job.roles],
        gpus=_gpus(job, snapshot, gpu_resource),
        fit={**alone, job.main.name: now.most or 0},
        reasons=[*_refusals(obstacles, snapshot), *([] if now.possible else reasons(job, snapshot))],
        unseen=[*not_judged(prepared), *prepared.unseen, *_other_pods(snapshot)],
        assumed=[*_assumed(prepared, snapshot, verdict), *_more(more)],
        next=(in_the_way.next if in_the_way else question)
        or advice.next_step(verdict, job, snapshot, now, emptied, gpu_resource),
    )


def _open_question(prepared: Prepared, snapshot: Snapshot, placed: str) -> str:
    """Say what is left open; an empty string where nothing is."""
    # Wherever their volumes will be, they are among the places that were looked at.
    if prepared.open_claims and placed != IMPOSSIBLE:
        names = listed(prepared.open_claims)
        words = f"undecided where the volume of persistent volume claim {names} will be, and so who can use it"
        return f"{words}. Bind it first, or give each pod a claim of its own."
    load = snapshot.staying if placed == IMPOSSIBLE else snapshot.taken
    if between := load.between:
        words = f"undecided what goes first: {between} pods wait for their node and precede some pods of the job alone"
        return f"{words}. Check again once they run."
    load = snapshot.staying if placed == "busy" else load
    if awaited := max((load.of(role.name).awaited for role in prepared.job.roles), default=0):
        words = f"undecided what the rules make of pods that wait for their node: {awaited}"
        return f"{words}. Check again once they run."
    return ""


def judge(job: Job, snapshot: Snapshot) -> Judgement:
    roles = {role.name: snapshot.role(role) for role in job.roles}
    return capacity.judge(snapshot.free(), list(roles.values()), roles[job.main.name])


def gpus_of(job: Job) -> str:
    """Guess what the job's GPUs are called."""
    asked = {resource for role in job.roles for resource in role.request if "/" in resource}
    return min((resource for resource in asked if GPU.search(resource)), default="nvidia.com/gpu")


def namespace_of(job: Job, namespace: str) -> str:
    """Return the namespace that the job names itself, else the one given."""
    return job.main.namespace or namespace


def readable(request: Units) -> dict[str, str]:
    return {resource: text(resource, amount) for resource, amount in sorted(request.items()) if resource != "pods"}


def not_judged(prepared: Prepared) -> list[str]:
    """Name what the pods ask for and the verdict leaves out."""
    return [f"{what} of the {role.name}" for role in prepared.job.roles for what in _beyond_us(role.spec)]


def _beyond_us(spec: kube.TemplateSpec) -> Iterator[str]:
    if spec.scheduler_name not in (None, "", "default-scheduler"):
        yield f"the rules of scheduler {spec.scheduler_name}"
    if spec.runtime_class_name:
        yield f"the overhead and nodes of runtime class {spec.runtime_class_name}"
    if spec.resource_claims:
        yield f"resource claims {', '.join(claim.name for claim in spec.resource_claims)}"


def _with_obstacles(placed: str, obstacles: Sequence[Obstacle]) -> str:
    found = {each.verdict for each in obstacles}
    if IMPOSSIBLE in found or placed == IMPOSSIBLE:
        return IMPOSSIBLE
    return "busy" if found else placed


def _refusals(obstacles: Sequence[Obstacle], snapshot: Snapshot) -> list[Reason]:
    return [Reason(len(snapshot.nodes) if each.everywhere else 0, each.reason) for each in obstacles]


def _other_pods(snapshot: Snapshot) -> Iterator[str]:
    counts = snapshot.counts
    if counts.pending:
        yield f"pods that wait for a node and may take room first: {counts.pending}"


def _assumed(prepared: Prepared, snapshot: Snapshot, verdict: str) -> Iterator[str]:
    own, lower = snapshot.counts.own, snapshot.counts.lower
    if own:
        pods = "pod counts" if own == 1 else "pods count"
        yield f"the run's own {own} {pods} as free, since the run keeps or replaces them"
    preempts = any(role.spec.preemption_policy != "Never" for role in prepared.job.roles)
    if lower and preempts and verdict != "fits":
        yield f"pods of a lower priority stay: the scheduler may remove some of these {lower} for the job"


def _more(nodes: Sequence[kube.Node]) -> Iterator[str]:
    if nodes:
        are = "nodes are" if len(nodes) > 1 else "node is"
        yield f"{len(nodes)} {are} there beside those of the cluster (--assume-nodes)"


def _verdict(now: Judgement, emptied: Judgement) -> str:
    if now.certain:
        return "fits"
    if now.possible or now.undecided or emptied.undecided:
        return "depends"
    return "busy" if emptied.possible else "impossible"


def _gpus(job: Job, snapshot: Snapshot, resource: str) -> Gpus:
    asking = [role for role in job.roles if role.request.get(resource)] or [job.main]
    admitting = frozenset().union(*(snapshot.role(role).nodes for role in asking))
    free = sum(max(0, node.free.get(resource, 0)) for node in snapshot.free() if node.name in admitting)
    needed = sum(role.replicas * role.request.get(resource, 0) for role in asking)
    return Gpus(resource, needed, free, advice.total(snapshot, resource))
