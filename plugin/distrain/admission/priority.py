"""Priority: find the priority that a pod gets from its PriorityClass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from distrain.admission.refusal import Refusal
from distrain.kube.policy import PriorityClass
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

Classes = Mapping[str, PriorityClass]
# The API server creates these classes itself.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def priority_classes_of(job: Job) -> list[str]:
    """Return the names of the job's PriorityClasses, without the classes that the API server creates."""
    names = {role.spec.priority_class_name for role in job.roles if role.spec.priority_class_name}
    return sorted(names - set(SYSTEM_PRIORITIES))


def priority_of(role: PodRole, classes: Classes | None) -> int:
    """Return the priority of the role's pods, 0 if it is not known."""
    name = role.spec.priority_class_name
    if not name:
        default = [each.value for each in (classes or {}).values() if each.global_default]
        return role.spec.priority or next(iter(default), 0)
    known = (classes or {}).get(name)
    return known.value if known else SYSTEM_PRIORITIES.get(name, 0)


def refusals(job: Job, classes: Classes | None, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each missing PriorityClass, or no refusal if the classes could not be read."""
    for name in priority_classes_of(job) if classes is not None else ():
        if name not in (classes or {}):
            path = "priorityClassName" if job.from_chart else say.place(job.main, "priorityClassName")
            step = f"{path}: there is no PriorityClass {name}. Create it, or name another."
            yield Refusal(Verdict.IMPOSSIBLE, f"no PriorityClass with name {name} was found", step)
