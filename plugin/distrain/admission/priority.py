"""Priority: give pods the priority of their PriorityClass, and refuse pods that contradict it.

Kubernetes plugin/pkg/admission/priority/admission.go: admitPod, getDefaultPriorityClass;
pkg/apis/scheduling/validation/validation.go: ValidatePriorityClassUpdate
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.kube.policy import PriorityClass
from distrain.verdict import Verdict
from distrain.workload.documents import HOOK
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

Classes = Mapping[str, PriorityClass]
# The API server creates these two classes itself.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
SYSTEM = {name: PriorityClass(kube.Metadata(name), value) for name, value in SYSTEM_PRIORITIES.items()}
PREEMPTS = "PreemptLowerPriority"


def applied(job: Job, classes: Classes | None) -> Job:
    """Return the job with the PriorityClass, the priority and the preemption policy of its pods.

    If the classes could not be read (None), pods without a class keep their priority, which is 0 if it is not set.
    """
    return replace(job, roles=tuple(replace(role, spec=_applied(role.spec, classes)) for role in job.roles))


def refusals(job: Job, classes: Classes | None, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each contradiction between a pod of the manifest and its PriorityClass.

    Yield nothing if the PriorityClasses could not be read.
    """
    for role in job.roles if classes is not None else ():
        if role.replicas:
            yield from _of_role(role, classes, say)


def refusals_of_classes(new: Sequence[PriorityClass], classes: Classes | None) -> Iterator[Refusal]:
    """Yield a refusal for each new PriorityClass that would be a second global default.

    `classes` are all PriorityClasses of the cluster.
    """
    defaults = sorted(name for name, found in (classes or {}).items() if found.global_default)
    for each in new:
        others = [name for name in defaults if name != each.metadata.name]
        if each.global_default and others:
            other = others[0]
            words = f"PriorityClass {other} is already marked as default. Only one default can exist"
            step = f"PriorityClass {each.metadata.name}: {other} is the global default. Leave globalDefault out."
            yield Refusal(Verdict.IMPOSSIBLE, words, step)


def refusals_of_changes(new: Sequence[PriorityClass], classes: Classes | None) -> Iterator[Refusal]:
    """Yield a refusal for each PriorityClass of the manifest whose value or policy differs from the cluster's class.

    `classes` are the cluster's classes. A class that is a Helm hook may differ, because Helm deletes and recreates it.
    The value 0 is not compared. A 0 may mean that the manifest sets no value, and then an update keeps the cluster's
    value.
    """
    for each in new:
        name, before = each.metadata.name, (classes or {}).get(each.metadata.name)
        if before is None or HOOK in (each.metadata.annotations or {}):
            continue
        policy = before.preemption_policy or PREEMPTS
        if each.value not in (0, before.value):
            yield _changed(name, "value", before.value, "Forbidden: may not be changed in an update.")
        if each.preemption_policy not in (None, policy):
            words = f'Invalid value: "{each.preemption_policy}": field is immutable'
            yield _changed(name, "preemptionPolicy", policy, words)


def _changed(name: str, key: str, before: object, words: str) -> Refusal:
    reason = f'PriorityClass.scheduling.k8s.io "{name}" is invalid: {key}: {words}'
    step = f"PriorityClass {name}: the cluster has {key} {before}, which cannot change. Keep it, or use another name."
    return Refusal(Verdict.IMPOSSIBLE, reason, step)


def _applied(spec: kube.TemplateSpec, classes: Classes | None) -> kube.TemplateSpec:
    found = _class_of(spec, classes)
    if found is None:
        return replace(spec, priority=spec.priority or 0)
    policy = found.preemption_policy or PREEMPTS
    return replace(
        spec, priority_class_name=found.metadata.name or None, priority=found.value, preemption_policy=policy
    )


def _class_of(spec: kube.PodSpec, classes: Classes | None) -> PriorityClass | None:
    """Return the PriorityClass of a pod, or None if it is not known. A pod that names no class gets the global default.

    Without a global default, the pod has priority 0. If there are several global defaults, the one with the lowest
    priority counts.
    """
    if spec.priority_class_name:
        return {**SYSTEM, **(classes or {})}.get(spec.priority_class_name)
    if classes is None:
        return None
    defaults = (each for each in classes.values() if each.global_default)
    return min(defaults, key=lambda each: each.value, default=PriorityClass())


def _of_role(role: PodRole, classes: Classes | None, say: Wording) -> Iterator[Refusal]:
    spec, found = role.spec, _class_of(role.spec, classes)
    if found is None and ("PriorityClass", spec.priority_class_name) in say.job.creates:
        return
    if found is None:
        path = "priorityClassName" if say.job.from_chart else say.place(role, "priorityClassName")
        step = f"{path}: there is no PriorityClass {spec.priority_class_name}. Create it, or name another."
        yield Refusal(Verdict.IMPOSSIBLE, f"no PriorityClass with name {spec.priority_class_name} was found", step)
        return
    policy = found.preemption_policy or PREEMPTS
    for what, key, given, computed in (
        ("integer value of priority", "priority", spec.priority, found.value),
        ("string value of PreemptionPolicy", "preemptionPolicy", spec.preemption_policy, policy),
    ):
        if given not in (None, computed):
            words = f"the {what} ({given}) must not be provided in pod spec"
            source = f"priority admission controller computed {computed} from the given PriorityClass name"
            step = f"{say.place(role)}: the PriorityClass decides {key}, which is {computed}. Leave {key} out."
            yield Refusal(Verdict.IMPOSSIBLE, f"{words}; {source}", step)
            return
