"""Which nodes' pods have to be read at all.

Most jobs are for a few nodes of a large cluster: those with their GPUs, or their label. What runs elsewhere takes no
room from them, and reading it is most of the work of a check.
"""

from __future__ import annotations

from collections.abc import Sequence

from distrain import kube
from distrain.amounts import allocatable
from distrain.check.admission import recovered, refusal
from distrain.job import Job, PodRole

# A list per node is worth it for so many; for more, one list of all pods takes fewer questions.
FEW = 64


def candidates(job: Job, nodes: Sequence[kube.Node]) -> list[str] | None:
    """Name the nodes that could take a pod of the job if they were empty and healthy; None when all pods matter.

    Rules between pods reach over a zone or the whole cluster, so for a job that has some, every pod matters.
    """
    if any(_looks_at_pods(role.spec) for role in job.roles):
        return None
    found = [node.metadata.name for node in nodes if any(_could_take(node, role) for role in job.roles)]
    return found if len(found) <= min(FEW, len(nodes) // 2) else None


def unread(nodes: int) -> str:
    """Say what was passed over."""
    return f"pods on the {nodes} nodes that take none of the job's, which an anti-affinity of theirs could reach beyond"


def _looks_at_pods(spec: kube.PodSpec) -> bool:
    affinity = spec.affinity or kube.Affinity()
    return bool(affinity.pod_affinity or affinity.pod_anti_affinity or spec.topology_spread_constraints)


def _could_take(node: kube.Node, role: PodRole) -> bool:
    if refusal(recovered(node), role.spec) is not None:
        return False
    room = allocatable(node)
    return all(room.get(resource, 0) >= amount for resource, amount in role.request.items())
