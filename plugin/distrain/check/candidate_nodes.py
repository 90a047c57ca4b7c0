"""Choose the nodes whose pods must be read.

In a large cluster, most jobs can run only on a few nodes, for example on nodes with GPUs. Pods on other nodes do not
compete with the job, and reading pods takes most of a check's time.
"""

from __future__ import annotations

from collections.abc import Sequence

from distrain import kube
from distrain.kube.quantities import allocatable
from distrain.scheduler.node_filters import first_refusal, recovered
from distrain.workload.manifest import Job, PodRole

# For up to FEW nodes, one list request per node is cheaper than listing all pods of the cluster.
FEW = 64


def candidate_nodes(job: Job, nodes: Sequence[kube.Node]) -> list[str] | None:
    """Name the nodes that could take a pod of the job if they were empty and healthy. Return None if all pods matter.

    If the job has constraints about other pods, all pods matter, because these constraints apply to a zone or the whole
    cluster.
    """
    if any(_depends_on_pods(role.spec) for role in job.roles):
        return None
    found = [node.metadata.name for node in nodes if any(_could_take(node, role) for role in job.roles)]
    return found if len(found) <= min(FEW, len(nodes) // 2) else None


def unread(nodes: int) -> str:
    """Return a line for the report about the nodes whose pods were not read."""
    where = "the node that takes" if nodes == 1 else f"the {nodes} nodes that take"
    return f"pods on {where} no pod of the job; if one has an anti-affinity, it could keep the job from other nodes"


def _depends_on_pods(spec: kube.PodSpec) -> bool:
    affinity = spec.affinity or kube.Affinity()
    return bool(affinity.pod_affinity or affinity.pod_anti_affinity or spec.topology_spread_constraints)


def _could_take(node: kube.Node, role: PodRole) -> bool:
    if first_refusal(recovered(node), role.spec) is not None:
        return False
    room = allocatable(node)
    return all(room.get(resource, 0) >= amount for resource, amount in role.request.items())
