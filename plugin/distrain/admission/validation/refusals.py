"""Refuse a job whose objects or pods the API server does not accept."""

from __future__ import annotations

from collections.abc import Iterator

from distrain.admission.refusal import Refusal
from distrain.admission.validation import names, operators, pods
from distrain.admission.validation.jobs import of_job
from distrain.admission.validation.stateful_sets import of_stateful_set
from distrain.admission.validation.storage.claims import of_claim
from distrain.kube.storage import PersistentVolumeClaim
from distrain.verdict import Verdict
from distrain.workload.manifest import REPLICAS, Job, PodRole
from distrain.workload.wording import Wording

DATA = ("Secret", "ConfigMap")
# The operators of MPIJobs add these volumes to the pods, so containers can mount them.
OF_OPERATORS = ("mpi-job-config", "mpi-job-kubectl", "ssh-auth")


def refusals(job: Job, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each object that the API server does not accept."""
    owners = set()
    for role in job.roles:
        kind, found = role.owner.kind if role.owner else "Pod", mistakes(role)
        if kind in REPLICAS:
            if role.owner not in owners:
                yield from _of_kubeflow(role, kind, say.place(role))
            kind = "Pod"
        owners.add(role.owner)
        yield from _refusal(kind, found, say.place(role))


def refusals_of_objects(job: Job) -> Iterator[Refusal]:
    """Yield a refusal for each claim, Secret and ConfigMap of the manifest that the API server does not accept."""
    for name, claim in sorted(job.created.by_name(PersistentVolumeClaim).items()):
        found = [*_of_name(name), *of_claim("spec", claim.spec)]
        yield from _refusal("PersistentVolumeClaim", found, f"PersistentVolumeClaim {name}")
    for each in (each.resource for each in job.objects if not each.is_of_operator and each.resource.kind in DATA):
        if each.api_version == "v1":
            yield from _refusal(each.kind, _of_name(each.name), f"{each.kind} {each.name}")


def refusals_of_sizes(job: Job) -> Iterator[Refusal]:
    """Yield a refusal for each object that is too large for the API server to store."""
    for each in job.too_large:
        parts = f" ({each.field}: {each.of_field:,})" if each.field else ""
        found = f"{each.name}: {each.size:,} bytes{parts}, but {each.most:,} is the most that can be stored."
        yield Refusal(Verdict.IMPOSSIBLE, each.reason, f"{found} Shorten it: put long texts into files of the image.")


def _of_name(name: str) -> list[str]:
    """Validate the name of an object.

    Nothing is checked if `name` is empty or the text None: an object with `generateName` has no name yet.
    """
    has_name = name not in ("", "None")
    return list(names.of_each("metadata.name", name, names.dns_subdomain)) if has_name else []


def mistakes(role: PodRole) -> list[str]:
    """Return the API server's messages about the role's Job, StatefulSet or Pod, or a pod that an operator creates."""
    return list(dict.fromkeys(_of_pods(role)))


def _of_kubeflow(role: PodRole, kind: str, place: str) -> Iterator[Refusal]:
    """Refuse a job that the API server does not accept, or for which the operator creates no pods."""
    found = list(names.of_metadata(role.workload.metadata))
    yield from _refusal(kind, found, place)
    if not found:
        yield from _refusal(kind, list(operators.of_job(role)), place, "operator")


def _refusal(kind: str, found: list[str], place: str, judge: str = "API server") -> Iterator[Refusal]:
    if found:
        step = f"{place}: the {judge} does not accept this {kind}. Correct {found[0].partition(': ')[0]}."
        yield Refusal(Verdict.IMPOSSIBLE, f"{kind} is invalid: {', '.join(found)}", step)


def _of_pods(role: PodRole) -> Iterator[str]:
    """Validate the role's Job, StatefulSet or Pod.

    If an operator creates the role's pods, validate one of these pods.
    """
    match role.owner and role.owner.kind:
        case "Job":
            return of_job(role.workload)
        case "StatefulSet":
            return of_stateful_set(role.workload)
        case "Pod":
            return _of_pod(role)
    return _of_operators_pod(role) if role.replicas else iter(())


def _of_pod(role: PodRole) -> Iterator[str]:
    yield from names.of_metadata(role.workload.metadata)
    yield from pods.of_spec("spec", role.template, role.labels)
    yield from pods.of_restart_policy("spec", role.template)


def _of_operators_pod(role: PodRole) -> Iterator[str]:
    """Validate a pod that an operator creates; the operator itself sets the restartPolicy."""
    yield from names.of_labels("metadata.labels", role.labels)
    yield from names.of_annotations("metadata.annotations", role.annotations)
    yield from pods.of_spec("spec", role.template, role.labels, OF_OPERATORS)
