"""Apply the namespace's defaults to a job, and collect the refusals that do not depend on free capacity."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from distrain.admission import limit_ranger, pod_security, pod_validation, priority, resource_quota
from distrain.admission.priority import priority_of
from distrain.admission.refusal import Refusal
from distrain.check import volume_claims
from distrain.check.attach_limits import attach_limits, not_judged
from distrain.check.dependencies import Dependencies
from distrain.check.gpus import gpus_of
from distrain.kube.quantities import Units
from distrain.scheduler.affinity_terms import NamespaceLabels
from distrain.scheduler.constraints import JobConstraints, constraints_of, unknown_labels
from distrain.scheduler.messages import GATED
from distrain.verdict import Verdict
from distrain.workload.manifest import Job
from distrain.workload.wording import Wording


class PreparedJob(Struct, frozen=True):
    """A job with the defaults of its namespace's LimitRanges, and the scheduling constraints of its pods.

    `gpu_resource` is the resource name of its GPUs. `refusals` stop the job whatever the nodes' free capacity is.
    `unseen` names what was not judged. `open_claims` are claims with a volume whose location is unknown until the first
    pod has a node.
    """

    job: Job
    gpu_resource: str
    namespace: str
    constraints: JobConstraints
    dependencies: Dependencies
    refusals: tuple[Refusal, ...] = ()
    unseen: tuple[str, ...] = ()
    open_claims: tuple[str, ...] = ()


def prepare(job: Job, namespace: str, found: Dependencies, gpu_resource: str | None) -> PreparedJob:
    """Apply the namespace's defaults to the job, and check everything except nodes, other pods and quotas.

    Without `gpu_resource`, the GPU resource's name is guessed from the pods' requests.
    """
    gpus = gpu_resource or gpus_of(job)
    job = limit_ranger.applied(job, found.limit_ranges or ())
    say = Wording(job, gpus)
    claims = volume_claims.judge_claims(job, found, say)
    refusals = [
        *_unserved(found, say),
        *_gates(job, say),
        *pod_validation.refusals(job, say),
        *priority.refusals(job, found.priority_classes, say),
        *pod_security.refusals(job, namespace, (found.namespaces or {}).get(namespace) or {}, say),
        *limit_ranger.refusals(job, found.limit_ranges or (), say),
        *_missing(found, namespace, say),
        *claims.refusals,
    ]
    quotas = resource_quota.not_judged(job, found.quotas or ())
    unseen = [*job.left_out, *found.unseen, *unknown_labels(job), *claims.unseen, *not_judged(job, found), *quotas]
    constraints = _constraints(job, namespace, found, claims)
    open_claims = tuple(claims.open)
    return PreparedJob(job, gpus, namespace, constraints, found, tuple(refusals), tuple(unseen), open_claims)


def with_quotas(prepared: PreparedJob, own: Units) -> list[Refusal]:
    """Return all refusals, including those of quotas; `own`, the requests of the release's pods, count as free."""
    say = Wording(prepared.job, prepared.gpu_resource)
    quotas = resource_quota.refusals(prepared.job, prepared.dependencies.quotas or (), say, own)
    return list(dict.fromkeys([*prepared.refusals, *quotas]))


def _constraints(job: Job, namespace: str, found: Dependencies, claims: volume_claims.Claims) -> JobConstraints:
    priorities = [priority_of(role, found.priority_classes) for role in job.roles]
    return constraints_of(
        job,
        namespace,
        NamespaceLabels(found.namespaces if namespace in (found.namespaces or {}) else None),
        priorities=(min(priorities), max(priorities)),
        volumes=claims.rules,
        exclusive_claims=claims.exclusive,
        attach_limits=attach_limits(job, found),
        beside=claims.shared.affinity,
    )


def _gates(job: Job, say: Wording) -> Iterator[Refusal]:
    for role in job.roles:
        names = ", ".join(gate.name for gate in role.spec.scheduling_gates or ())
        if names and role.replicas:
            step = f"{say.place(role)}: no pod is placed before its scheduling gates are lifted: {names}."
            yield Refusal(Verdict.IMPOSSIBLE, GATED, f"{step} Lift them, or leave them out.")


def _unserved(found: Dependencies, say: Wording) -> Iterator[Refusal]:
    for api_version, kind in sorted(found.unserved):
        place = "job.apiVersion" if say.job.from_chart else kind
        step = f"{place}: the cluster does not serve {kind} of {api_version}. Install an operator that does, or choose"
        words = f'no matches for kind "{kind}" in version "{api_version}"'
        yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} another version or kind.")


def _missing(found: Dependencies, namespace: str, say: Wording) -> Iterator[Refusal]:
    for kind, name in sorted(found.missing):
        is_account = kind == "ServiceAccount" and say.job.from_chart
        place = "serviceAccountName" if is_account else say.place(say.job.main)
        missing, them = f"there is no {kind} {name}", "it"
        if not found.has_namespace:
            missing, them = f"there is neither namespace {namespace} nor {kind} {name}", "both"
        step = f"{place}: {missing}, without which its pods do not start. Create {them}."
        yield Refusal(Verdict.IMPOSSIBLE, _not_found(kind, name, namespace), step)


def _not_found(kind: str, name: str, namespace: str) -> str:
    """Return the words of kubelet, or of the admission plugin ServiceAccount."""
    words = f'{kind.lower()} "{name}" not found'
    return f"error looking up service account {namespace}/{name}: {words}" if kind == "ServiceAccount" else words
