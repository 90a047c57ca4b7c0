"""Tell the user of a job that does not fit which value to change, what the check found, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from distrain import kube
from distrain.check.cluster_state import ClusterState
from distrain.kube.quantities import Units, rounded_down, text
from distrain.scheduler.messages import (
    IN_USE,
    NO_DOMAIN,
    NO_FREE_PORTS,
    NO_MATCH,
    NO_SPACE,
    NO_VOLUME,
    NODE_CONFLICT,
    NOT_APART,
    NOT_NEAR,
    OTHER_NAME,
    OTHER_ZONE,
    REPELLED,
    TOO_MANY_VOLUMES,
    UNTOLERATED,
)
from distrain.scheduler.node_resources_fit import insufficient
from distrain.scheduler.taint_toleration import untolerated
from distrain.solver import capacity
from distrain.solver.budget import BUDGET
from distrain.solver.capacity import Judgement
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording, asked, listed

# Advice for nodes that are large enough but refuse the pods: the scheduler's message, the value to change, the
# obstacle, and the next step.
_SELECTOR = ("nodeSelector", "labels", "Correct nodeSelector or affinity.")
_VOLUME = ("", "the volumes of its persistent volume claims", "Use claims with reachable volumes, or add nodes.")
_SPACE = ("", "storage that its driver has left for new volumes", "Ask for smaller volumes, or another class.")
_BETWEEN = ("affinity", "affinity between pods", "Correct affinity, or the labels of the pods that it selects.")
KEPT_OFF = (
    (NO_MATCH, *_SELECTOR),
    (OTHER_NAME, "", "the name in spec.nodeName", "Leave it out, and let the scheduler choose."),
    (NO_FREE_PORTS, "", "ports of the host that other pods hold", "Choose other ports."),
    (NODE_CONFLICT, *_VOLUME),
    (NO_VOLUME, *_VOLUME),
    (NO_SPACE, *_SPACE),
    (OTHER_ZONE, *_VOLUME),
    (TOO_MANY_VOLUMES, "", "the number of volumes that they can attach", "Use fewer volumes per pod, or add nodes."),
    (IN_USE, "", "a claim for a single pod, which another pod uses", "Use a claim that more pods can share."),
    (NO_DOMAIN, "", "the label of a topology spread constraint", "Label the nodes, or correct the constraint."),
    (NOT_NEAR, *_BETWEEN),
    (NOT_APART, *_BETWEEN),
    (REPELLED, "", "the anti-affinity of other pods, which stay", "Take other labels, or add nodes."),
)


def next_step(
    verdict: Verdict, job: Job, state: ClusterState, now: Judgement, emptied: Judgement, gpu_resource: str
) -> str:
    say = Wording(job, gpu_resource)
    if verdict == Verdict.FITS:
        return ""
    if verdict == Verdict.DEPENDS:
        return _undecided(say, now) if now.undecided or not now.possible else _depends(say, now)
    if verdict == Verdict.BUSY:
        return _busy(say, now)
    empty = state.emptied()
    for role in (job.main, *job.others):
        if role.replicas and not capacity.room(empty.free(), empty.role(role)):
            return _nowhere(say, role, empty)
    return _too_many(say, empty, emptied)


def _depends(say: Wording, now: Judgement) -> str:
    head, size = say.size(say.job.main)
    sure = f"Lower {size} to {say.size_of(now.sure)} to be sure" if now.sure else "Free some room to be sure"
    return f"{head}: {say.all_pods()} fit, but not in every order and place that the scheduler may choose. {sure}."


def _undecided(say: Wording, now: Judgement) -> str:
    """Say which search ended at its limit of steps without an answer.

    There are three searches: for the order of the pods, for a placement beside the pods that run now, and for a
    placement on empty nodes.
    """
    head, size = say.size(say.job.main)
    if now.possible:
        words = f"{say.all_pods()} fit in one placement; undecided whether in every order: the search of the orders"
    elif now.undecided:
        words = f"undecided whether {say.all_pods()} fit: no placement is found, and the search of the placements"
    else:
        words = f"{say.all_pods()} do not fit now; undecided whether on empty nodes: the search of the placements there"
    lower = f"{size} to {say.size_of(now.sure)}" if now.sure else size
    return f"{head}: {words} ended after {BUDGET} steps. Free some room, or lower {lower}, to be sure."


def _busy(say: Wording, now: Judgement) -> str:
    head, size = say.size(say.job.main)
    fit = "fits" if say.size_of(say.job.main.replicas) == 1 else "fit"
    words = f"{head}: {say.main_pods()} {fit} only once other pods end or nodes come back"
    if now.most:
        most = say.size_of(now.most)
        return f"{words}; there is room for {most} now. Lower {size} to {most}, or wait."
    return f"{words}; there is room for none now. Wait."


def _too_many(say: Wording, empty: ClusterState, emptied: Judgement) -> str:
    for role in say.job.others:
        held = capacity.room(empty.free(), empty.role(role))
        if held < role.replicas:
            return _more_than_nodes_hold(say, role, role.pods(role.replicas), held)
    if emptied.most:
        return _more_than_nodes_hold(say, say.job.main, say.main_pods(), say.size_of(emptied.most))
    # `most` is 0, perhaps only because the search ended too early. So the message leaves open whether a smaller number
    # of pods would fit.
    main = say.job.main
    misfit = f"{say.main_pods()} {'does' if main.replicas == 1 else 'do'} not fit"
    if not say.job.others:
        words = f"{misfit} under its rules about other pods (affinity, topology spread), even on empty nodes"
        return f"{say.place(main)}: {words}. Correct the rules, or first start the pods that they select."
    first = listed([say.place(role) for role in reversed(say.job.others)])
    them = "them" if len(say.job.others) > 1 else "it"
    return f"{first}: with {them}, {misfit}, even on empty nodes. Lower what {first} or {say.place(main)} ask for."


def _more_than_nodes_hold(say: Wording, role: PodRole, pods: str, held: int) -> str:
    head, size = say.size(role)
    return (
        f"{head}: {pods} of {asked(role)} each do not fit, even on empty nodes; these hold {held}. "
        f"Lower {size} to {held}."
    )


def _nowhere(say: Wording, role: PodRole, empty: ClusterState) -> str:
    """Say why no node could run even one pod of the role, even if all other pods were gone."""
    if not empty.nodes:
        return "The cluster has no nodes. Add one."
    free = {node.name: node.free for node in empty.free()}
    large = [node for node in empty.nodes if _holds(free[node.metadata.name], role.request)]
    if not large:
        return _too_large(say, role, free)
    return _kept_off(say, role, large, empty)


def _too_large(say: Wording, role: PodRole, free: Mapping[str, Mapping[str, int]]) -> str:
    for resource, amount in role.request.items():
        most = max((amounts.get(resource, 0) for amounts in free.values()), default=0)
        if most < amount:
            return _more_than_any(say, role, resource, most)
    return f"{say.place(role)}: no node has {asked(role)} at once. Lower one of them."


def _more_than_any(say: Wording, role: PodRole, resource: str, most: int) -> str:
    if resource == "pods":
        return f"{say.place(role)}: no node takes another pod, even when empty. Add a node, or raise its limit of pods."
    head, what = say.amount(role, resource)
    words = f"{head}: {text(resource, role.request[resource])} {resource} asked, but no node has"
    if most > 0:
        had = rounded_down(resource, most)
        return f"{words} more than {had}. Lower {what} to {had} or less."
    return f"{words} any. {_without(say, role, resource)}"


def _without(say: Wording, role: PodRole, resource: str) -> str:
    if resource != say.gpu_resource or say.section(role) != "workers":
        return f"Add nodes with {resource}."
    return "Add GPU nodes, correct workers.gpuResource, or set workers.gpus to 0 to train on the CPU."


def _kept_off(say: Wording, role: PodRole, large: Sequence[kube.Node], empty: ClusterState) -> str:
    free, request = {node.name: node for node in empty.free()}, empty.role(role)
    by_cause: dict[str, list[kube.Node]] = {}
    for node in large:
        shortage = insufficient(free[node.metadata.name], request)
        by_cause.setdefault(_obstacle(node, role, empty, shortage), []).append(node)
    if kept := by_cause.get(UNTOLERATED):
        taints = ", ".join(sorted({_taint(taint) for node in kept for taint in untolerated(node, role.spec)}))
        words = f"{_but_for(kept)} taints: {taints}. Tolerate them, or add a node without."
        return f"{say.place(role, 'tolerations')}: {words}"
    for cause, key, in_the_way, step in KEPT_OFF:
        if kept := by_cause.get(cause):
            return f"{say.place(role, key)}: {_but_for(kept)} {in_the_way}. {step}"
    raise AssertionError(by_cause)


def _obstacle(node: kube.Node, role: PodRole, empty: ClusterState, shortage: Sequence[str]) -> str:
    """Return the message of the first filter that refuses an empty node.

    A taint is reported only if no other filter refuses the node.
    """
    found = empty.refusal(node, role)
    if found == UNTOLERATED:
        open_to_all = replace(node, spec=replace(node.spec, taints=[]))
        return empty.refusal(open_to_all, role) or next(iter(shortage), UNTOLERATED)
    return found or shortage[0]


def _but_for(nodes: Sequence[kube.Node]) -> str:
    return f"{len(nodes)} node{'s' if len(nodes) > 1 else ''} would do, but for"


def _holds(free: Mapping[str, int], request: Units) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in request.items() if amount > 0)


def _taint(taint: kube.Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
