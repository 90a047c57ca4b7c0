"""Read the roles of a job from the objects that the cluster has for it.

`manifest.py` reads a job that is to be checked and does not exist yet. The objects exist already, so this module
validates nothing and does not compute what controllers add to the pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from distrain import kube
from distrain.kube.gpus import GPU
from distrain.kube.resource import Resource
from distrain.workload.manifest import (
    REPLICAS,
    ROLE_LABEL,
    WORKER,
    Job,
    PodRole,
    follows_main,
    number_of_pods,
    place_of,
)
from distrain.workload.slots import slots_of

# Used for a job without roles. No operator accepts such a job.
NO_WORKERS = PodRole(WORKER, 0, kube.TemplateSpec(), {}, WORKER)

# The ends of the names of a Plain job's Jobs.
ENDS_OF_JOBS = ("-launcher", "-worker", "-keygen")

LiveObject = tuple[Resource, kube.Workload]


def live_job(objects: Sequence[LiveObject]) -> Job:
    """Return the job to which these objects belong. Its main resource comes first."""
    found = in_order(objects)
    roles = [role for resource, workload in found for role in _roles(resource, workload)] or [NO_WORKERS]
    workers = (role for role in roles if role.component == WORKER)
    return Job(
        resources=tuple(resource for resource, _ in found),
        roles=tuple(sorted(roles, key=place_of)),
        from_chart=True,
        slots=slots_of(*found[0], []) or next((max(1, gpus_of(role)) for role in workers), None),
    )


def name_of_job(resource: Resource) -> str:
    """Return the name of the job to which a resource belongs. A Plain job consists of several Jobs."""
    end = next((end for end in ENDS_OF_JOBS if resource.kind == "Job" and resource.name.endswith(end)), "")
    return resource.name.removesuffix(end)


def in_order(objects: Sequence[LiveObject]) -> list[LiveObject]:
    """Sort the objects of a job. The first one is the main object: when it ends, the job ends."""
    return sorted(objects, key=lambda found: follows_main(found[0]))


def _roles(resource: Resource, workload: kube.Workload) -> Iterator[PodRole]:
    spec = workload.spec
    replicas = {"": kube.ReplicaSpec(number_of_pods(resource.kind, spec), spec.template)}
    if attribute := REPLICAS.get(resource.kind):
        replicas = getattr(spec, attribute) or {}
    for key, replica in replicas.items():
        template = replica.template or kube.PodTemplate()
        component = ((template.metadata and template.metadata.labels) or {}).get(ROLE_LABEL, key.lower())
        number = 1 if replica.replicas is None else replica.replicas
        pods = template.spec or kube.TemplateSpec()
        yield PodRole(key.lower() or component, number, pods, {}, component, owner=resource, workload=workload)


def gpus_of(role: PodRole) -> int:
    """Return how many GPUs a pod of this role requests.

    If there is no GPU of a known vendor, count other devices such as habana.ai/gaudi: their names contain a slash.
    """
    limits = [(each.resources and each.resources.limits) or {} for each in role.spec.containers or ()]
    asked = [(name, int(amount)) for each in limits for name, amount in each.items() if _is_device(name, amount)]
    known = [amount for name, amount in asked if GPU.search(name)]
    return sum(known or (amount for _, amount in asked))


def _is_device(name: str, amount: object) -> bool:
    return "/" in name and str(amount).isdecimal()
