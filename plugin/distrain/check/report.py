"""Report whether a job fits the cluster: the verdict, its numbers and reasons, and what could not be judged.

The verdict is `fits` only if the scheduler places every pod in any order (see solver/capacity) and nothing refuses the
pods (see refusals). `unseen` names what could not be read; such gaps do not change the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.check import advice
from distrain.check.cluster_state import ClusterState, judge
from distrain.check.gpus import Gpus, count_gpus
from distrain.check.reasons import Reason, reasons
from distrain.check.refusals import PreparedJob
from distrain.kube.quantities import Units, text
from distrain.lint.subject import ValueWarning
from distrain.solver import capacity
from distrain.solver.capacity import Judgement
from distrain.verdict import Verdict
from distrain.workload.suspension import is_suspended
from distrain.workload.wording import listed

# Disks that a pod uses directly, without a PersistentVolumeClaim. They count towards the volumes that a node can
# attach.
INLINE_DISKS = {"awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "iscsi", "rbd"}


class Pods(Struct, frozen=True):
    """The number of pods of one role, and the request of each pod in the units of a manifest."""

    role: str
    replicas: int
    requests: dict[str, str]


class Report(Struct, frozen=True):
    """The report of a check.

    If `undecided` is true, the verdict is `depends`, because the check could not find out whether the job fits. `fit`
    maps each role to a number of pods. For the main role, this is how many of its pods fit in addition to all pods of
    the other roles. For any other role, it is how many of its pods fit if the job has no other pods. `unseen` names
    what was not judged. `assumed` names the check's assumptions that differ from the cluster's state, such as nodes of
    --assume-nodes. `warnings` are about the values; they do not change the verdict.
    """

    verdict: Verdict
    undecided: bool
    pods: list[Pods]
    gpus: Gpus
    fit: dict[str, int]
    reasons: list[Reason]
    unseen: list[str]
    assumed: list[str]
    next: str
    warnings: list[ValueWarning] = field(default_factory=list)


def report(prepared: PreparedJob, state: ClusterState, more: Sequence[kube.Node] = ()) -> Report:
    """Judge the prepared job against the cluster's state, which already contains the nodes in `more`."""
    job = prepared.job
    now = judge(job, state)
    emptied = now if now.possible else judge(job, state.emptied())
    placed = _verdict(now, emptied)
    if question := _open_question(prepared, state, placed):
        placed = Verdict.DEPENDS
    is_open = placed == Verdict.DEPENDS and (bool(question) or not now.possible)
    refusals = prepared.refusals
    verdict = _with_refusals(placed, refusals, is_open=is_open)
    alone = {role.name: capacity.room(state.free(), state.role(role)) for role in job.others}
    in_the_way = next((each for each in refusals if each.verdict == verdict), None)
    return Report(
        verdict=verdict,
        undecided=verdict == Verdict.DEPENDS and (is_open or now.undecided),
        pods=[Pods(role.name, role.replicas, readable(role.request)) for role in job.roles],
        gpus=count_gpus(job, state, prepared.gpu_resource),
        fit={**alone, job.main.name: now.most or 0},
        reasons=[*_reasons(refusals, state), *([] if now.possible else reasons(job, state))],
        unseen=[*not_judged(prepared), *prepared.unseen, *_other_pods(state)],
        assumed=[*_assumed(prepared, state, verdict), *_more(more)],
        next=(in_the_way.next if in_the_way else question)
        or advice.next_step(verdict, job, state, now, emptied, prepared.gpu_resource),
    )


def _open_question(prepared: PreparedJob, state: ClusterState, placed: Verdict) -> str:
    """Return the reason why the verdict is undecided, or an empty string."""
    # The check has considered every possible location of the volumes. So if it finds the job impossible, no location
    # makes the job possible.
    if prepared.open_claims and placed != Verdict.IMPOSSIBLE:
        names = listed(prepared.open_claims)
        words = f"undecided where the volume of persistent volume claim {names} will be, and so who can use it"
        return f"{words}. Bind it first, or give each pod a claim of its own."
    drivers = (state.emptied() if placed == Verdict.BUSY else state).contested_drivers()
    if drivers and placed != Verdict.IMPOSSIBLE:
        words = f"undecided how many pods a node takes before it can attach no more volumes of {listed(drivers)}"
        return f"{words}: it depends on their order. Use fewer volumes per pod, or add nodes."
    usage = state.staying if placed == Verdict.IMPOSSIBLE else state.taken
    if between := usage.between:
        wait = "pod waits for its node and precedes" if between == 1 else "pods wait for their node and precede"
        words = f"undecided which pods go first: {between} {wait} only some pods of the job"
        return f"{words}. Check again once {'it runs' if between == 1 else 'they run'}."
    usage = state.staying if placed == Verdict.BUSY else usage
    if awaited := max((usage.of(role.name).awaited for role in prepared.job.roles), default=0):
        words = f"undecided whether the rules will count pods that wait for their node: {awaited}"
        return f"{words}. Check again once they run."
    return ""


def readable(request: Units) -> dict[str, str]:
    return {resource: text(resource, amount) for resource, amount in sorted(request.items()) if resource != "pods"}


def not_judged(prepared: PreparedJob) -> list[str]:
    """Return a line for each setting of the pods that this check ignores."""
    return [f"{what} of the {role.name}" for role in prepared.job.roles for what in _beyond_check(role.spec)]


def _beyond_check(spec: kube.TemplateSpec) -> Iterator[str]:
    if spec.scheduler_name not in (None, "", "default-scheduler"):
        yield f"the rules of scheduler {spec.scheduler_name}"
    if inline := sorted({source for volume in spec.volumes or () for source in volume.sources} & INLINE_DISKS):
        yield f"volumes of type {', '.join(inline)}"
    if spec.resource_claims:
        yield f"resource claims {', '.join(claim.name for claim in spec.resource_claims)}"


def _with_refusals(placed: Verdict, refusals: Sequence[Refusal], *, is_open: bool) -> Verdict:
    """Combine two findings into the job's verdict: `placed`, which says whether the pods fit, and the refusals.

    `is_open` is true if it is unknown whether the nodes can ever run the job.
    """
    found = {each.verdict for each in refusals}
    if Verdict.IMPOSSIBLE in found or placed == Verdict.IMPOSSIBLE:
        return Verdict.IMPOSSIBLE
    return Verdict.BUSY if found and not is_open else placed


def _reasons(refusals: Sequence[Refusal], state: ClusterState) -> list[Reason]:
    found = (Reason(len(state.nodes) if each.everywhere else 0, each.reason) for each in refusals)
    return list(dict.fromkeys(found))


def _other_pods(state: ClusterState) -> Iterator[str]:
    counts = state.counts
    if counts.pending:
        yield f"pods that wait for a node and may take room first: {counts.pending}"


def _assumed(prepared: PreparedJob, state: ClusterState, verdict: Verdict) -> Iterator[str]:
    if names := prepared.job.generated:
        yield f"names of objects that have only a generateName, {listed(names)}: the API server will choose others"
    if is_suspended(prepared.job):
        yield "the suspended job goes on"
    own, lower = prepared.own, state.counts.lower
    if own:
        pods = "pod counts" if own == 1 else "pods count"
        yield f"the run's own {own} {pods} as free, since the run keeps or replaces them"
    preempts = any(role.spec.preemption_policy != "Never" for role in prepared.job.roles)
    if lower and preempts and verdict != Verdict.FITS:
        yield f"pods of a lower priority stay: the scheduler may remove some of these {lower} for the job"


def _more(nodes: Sequence[kube.Node]) -> Iterator[str]:
    if nodes:
        yield f"{len(nodes)} {'nodes exist' if len(nodes) > 1 else 'node exists'} (--assume-nodes)"


def _verdict(now: Judgement, emptied: Judgement) -> Verdict:
    if now.certain:
        return Verdict.FITS
    if now.possible or now.undecided or emptied.undecided:
        return Verdict.DEPENDS
    return Verdict.BUSY if emptied.possible else Verdict.IMPOSSIBLE
