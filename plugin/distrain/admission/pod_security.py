"""PodSecurity: a namespace that enforces `restricted` refuses the containers that some operators add."""

from __future__ import annotations

from collections.abc import Iterator

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.kube.selectors import Labels
from distrain.verdict import Verdict
from distrain.workload.kinds import INIT_CONTAINERS
from distrain.workload.manifest import Job
from distrain.workload.wording import Wording

ENFORCED = "pod-security.kubernetes.io/enforce"


def refusals(job: Job, namespace: str, labels: Labels, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each role whose operator adds such a container; `labels` are those of the namespace."""
    for role in job.roles if labels.get(ENFORCED) == "restricted" else ():
        added = [each.name for each in role.spec.init_containers or () if _is_unrestricted(each)]
        if added and role.replicas:
            words = f'violates PodSecurity "restricted": container {added[0]}'
            step = f"{say.place(role)}: namespace {namespace} refuses container {added[0]}, which the operator adds."
            mend = "Take a namespace that enforces baseline, or another kind of job (job.kind, job.apiVersion)."
            yield Refusal(Verdict.IMPOSSIBLE, words, f"{step} {mend}")


def _is_unrestricted(container: kube.Container) -> bool:
    """Tell whether an operator adds the container, without the security context that `restricted` demands."""
    return container.name in INIT_CONTAINERS and not isinstance(container, kube.TemplateContainer)
