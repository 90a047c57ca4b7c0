"""RuntimeClass: give pods the overhead, node labels and tolerations of their RuntimeClass, and refuse contradictions.

Kubernetes plugin/pkg/admission/runtimeclass/admission.go: setOverhead, setScheduling, validateOverhead;
pkg/util/tolerations/tolerations.go: MergeTolerations
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import convert, to_builtins
from msgspec.structs import replace

from distrain import kube
from distrain.admission.refusal import Refusal
from distrain.kube.placement import TemplateToleration
from distrain.kube.policy import RuntimeClass
from distrain.kube.quantities import all_thousandths
from distrain.pods.pod_requests import pod_request
from distrain.verdict import Verdict
from distrain.workload.manifest import Job, PodRole
from distrain.workload.wording import Wording

# The RuntimeClasses by name; the value is None if the cluster has no RuntimeClass of the name. A RuntimeClass that was
# not read has no entry in this mapping.
Classes = Mapping[str, RuntimeClass | None]

WITHOUT_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
ANOTHER = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def names(job: Job) -> list[str]:
    """Return the names of the RuntimeClasses that the job's pods use but that the job's manifest does not create."""
    found = {role.spec.runtime_class_name for role in job.roles if role.replicas}
    return sorted(name for name in found if name and ("RuntimeClass", name) not in job.creates)


def applied(job: Job, classes: Classes) -> Job:
    """Return the job with the overhead, the node selector and the tolerations of its pods' RuntimeClasses."""
    return replace(job, roles=tuple(_with_class(role, classes) for role in job.roles))


def refusals(job: Job, classes: Classes, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for each contradiction between a pod in the manifest and its RuntimeClass."""
    for role in job.roles:
        if role.replicas:
            yield from _of_role(role, classes, say)


def not_judged(job: Job, classes: Classes) -> Iterator[str]:
    """Name the RuntimeClasses that the plugin has not read."""
    for role in job.roles:
        name = role.spec.runtime_class_name
        if role.replicas and name and name not in classes:
            yield f"the overhead and nodes of runtime class {name} of the {role.name}"


def _with_class(role: PodRole, classes: Classes) -> PodRole:
    found = classes.get(role.spec.runtime_class_name or "")
    if found is None:
        return role
    spec = _applied(role.spec, found)
    return replace(role, spec=spec, request=pod_request(spec))


def _applied(spec: kube.TemplateSpec, found: RuntimeClass) -> kube.TemplateSpec:
    overhead, scheduling = found.overhead and found.overhead.pod_fixed, found.scheduling
    spec = replace(spec, overhead=overhead or spec.overhead)
    if scheduling is None:
        return spec
    added = convert(to_builtins(scheduling.tolerations or []), list[TemplateToleration])
    tolerations = [*(spec.tolerations or ()), *(each for each in added if each not in (spec.tolerations or ()))]
    selector = {**(spec.node_selector or {}), **(scheduling.node_selector or {})}
    return replace(spec, node_selector=selector or None, tolerations=tolerations or None)


def _of_role(role: PodRole, classes: Classes, say: Wording) -> Iterator[Refusal]:
    name = role.spec.runtime_class_name
    if name is None:
        if role.spec.overhead:
            step = f"{say.place(role)}: its pods have an overhead, which only a RuntimeClass sets. Leave overhead out."
            yield Refusal(Verdict.IMPOSSIBLE, WITHOUT_CLASS, step)
    elif found := classes.get(name):
        yield from _contradictions(role, found, say)
    elif name in classes:
        place = say.shared_place(role, "runtimeClassName", lambda spec: spec.runtime_class_name)
        step = f"{place}: there is no RuntimeClass {name}. Create it, or name another."
        yield Refusal(Verdict.IMPOSSIBLE, f'pod rejected: RuntimeClass "{name}" not found', step)


def _contradictions(role: PodRole, found: RuntimeClass, say: Wording) -> Iterator[Refusal]:
    """Yield a refusal for an overhead or a node label that differs from the one in the class."""
    name, given = found.metadata.name, role.spec.overhead
    fixed = found.overhead.pod_fixed if found.overhead else None
    if given and all_thousandths(given) != all_thousandths(fixed):
        step = f"{say.place(role)}: RuntimeClass {name} decides the overhead of its pods. Leave overhead out."
        yield Refusal(Verdict.IMPOSSIBLE, ANOTHER if found.overhead else WITHOUT_CLASS, step)
    selector = (found.scheduling and found.scheduling.node_selector) or {}
    for key, value in sorted(selector.items()):
        own = (role.spec.node_selector or {}).get(key, value)
        if own != value:
            words = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            words += f"pod.spec.nodeSelector[{key}] = {own}"
            step = f"{say.place(role, 'nodeSelector')}: {key} is {own}, and RuntimeClass {name} needs {value}."
            step = f"{step} Leave it out, or name another class."
            yield Refusal(Verdict.IMPOSSIBLE, words, step)
