"""RuntimeClass: only the RuntimeClass of a pod sets the pod's overhead.

Kubernetes plugin/pkg/admission/runtimeclass/admission.go: validateOverhead. The RuntimeClasses are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain.admission.refusal import Refusal
from distrain.verdict import Verdict
from distrain.workload.manifest import Job
from distrain.workload.wording import Wording

REJECTED = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def refusals(job: Job, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each role whose pods have an overhead but no RuntimeClass."""
    for role in job.roles:
        if role.replicas and role.spec.overhead and role.spec.runtime_class_name is None:
            step = f"{say.place(role)}: its pods have an overhead, which only a RuntimeClass sets. Leave overhead out."
            yield Refusal(Verdict.IMPOSSIBLE, REJECTED, step)
