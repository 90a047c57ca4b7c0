"""What an upgrade changes, from the rendered objects and the values of two revisions, and what becomes of each change.

Pure functions. What an operator does with a changed field of a running job is written down here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from distrain.kube.resource import Resource
from distrain.kube.yaml_loader import LOADER
from distrain.workload.manifest import HOOK

Object = dict[str, Any]
Objects = dict[Resource, Object]

CONTENT = "distrain/content"
LIVE, REPLACED, IGNORED = "live", "replaced", "ignored"
# Only the kinds that rescale live keep their content at another size: for all others the size is part of it.
SIZE = re.compile(
    r"spec\.(\w+ReplicaSpecs\.\w+\.replicas|parallelism|completions)|spec\.runPolicy\.schedulingPolicy\.min.*"
)
# What the cluster or the operator applies to a running job. All else is read once, when the pods are made.
APPLIED = {
    # mpi-operator
    ("MPIJob", "kubeflow.org/v2beta1"): r"spec\.runPolicy\.(cleanPodPolicy|suspend|schedulingPolicy)(\..*)?",
    ("MPIJob", "kubeflow.org/v1alpha2"): r"spec\.cleanPodPolicy",
    # training-operator
    ("MPIJob", "kubeflow.org/v1"): r"spec\.(cleanPodPolicy|runPolicy)(\..*)?",
    ("PyTorchJob", "kubeflow.org/v1"): r"spec\.runPolicy(\..*)?",
    ("TFJob", "kubeflow.org/v1"): r"spec\.runPolicy(\..*)?",
    ("MXJob", "kubeflow.org/v1"): r"spec\.runPolicy(\..*)?",
    ("MXJob", "kubeflow.org/v1beta1"): r"spec\.cleanPodPolicy",
    # Kubernetes
    ("Job", "batch/v1"): r"spec\.(activeDeadlineSeconds|backoffLimit|suspend|ttlSecondsAfterFinished)",
}
METADATA = re.compile(r"metadata\.(labels|annotations)(\..*)?")
# The values that a pod's metadata comes from, for a message to name.
TEMPLATE_METADATA = re.compile(r"template\.metadata\.(labels|annotations)")
VALUES = {"labels": "podLabels", "annotations": "podAnnotations"}
# Values that may hold what nobody is to see, and long ones, are named without their content.
SECRETIVE = ("env", "command", "s3", "trainer.extraArgs", "workers.podSpec", "launcher.podSpec")
SHOWN = 60
# The chart renders these as numbers, though --set makes text of a fraction.
NUMBERS = re.compile(r"trainer\.learningRate|data\.maxBadShare|(workers|launcher|servers|scheduler)\.cpu")


class Change(Struct, frozen=True):
    """One change: its effect, the object or value that it is about, and how it changes."""

    effect: str
    what: str
    how: str


def objects(manifest: str) -> Objects:
    """Return a manifest's objects but Helm's hooks, which are made and gone with each upgrade."""
    documents = [document for document in yaml.load_all(manifest, Loader=LOADER) if isinstance(document, dict)]
    found = {}
    for item in documents:
        metadata = item.get("metadata") or {}
        if HOOK not in (metadata.get("annotations") or {}):
            found[Resource(str(item.get("apiVersion")), str(item.get("kind")), str(metadata.get("name")))] = item
    return found


def of_objects(old: Objects, new: Objects, old_job: Sequence[Resource], new_job: Sequence[Resource]) -> list[Change]:
    """Return what becomes of each object; the jobs are the resources that hold the pods, the job's own first.

    What is named after a job comes and goes with it, and is not told apart.
    """
    changes = [change for resource in old_job for change in _of_job_object(resource, old, new, new_job)]
    stems = {name_of(old_job), name_of(new_job)}
    jobs = {*old_job, *new_job}
    for resource in [*old, *(made for made in new if made not in old)]:
        if resource in jobs or any(_comes_with_job(resource, stem) for stem in stems):
            continue
        if old.get(resource) != new.get(resource):
            how = "created" if resource not in old else "deleted" if resource not in new else "changed"
            changes.append(Change(LIVE, named(resource), how))
    return _settled(changes)


def name_of(job: Sequence[Resource]) -> str:
    """Return the name that all objects of a job begin with."""
    return job[0].name.removesuffix("-launcher") if job[0].kind == "Job" else job[0].name


def _comes_with_job(resource: Resource, job: str) -> bool:
    """Tell whether an object is one of the job's parts, by its name; the release's own objects may have the same."""
    return resource.name.startswith(f"{job}-") or (resource.name == job and resource.kind in ("Service", "PodGroup"))


def _of_job_object(resource: Resource, old: Objects, new: Objects, new_job: Sequence[Resource]) -> Iterator[Change]:
    if resource in new:
        before, after = (_content(each[resource]) for each in (old, new))
        if before and after and before != after:
            yield Change(REPLACED, named(resource), "ended, then created anew")
        else:
            yield from of_job(resource, old[resource], new[resource])
        return
    part = resource.name.rpartition("-")[2]
    # Of a job of kind Plain there are several resources, told apart by the end of their names.
    alike = [made for made in new_job if made.name.rpartition("-")[2] == part]
    yield Change(REPLACED, named(resource), f"by {named((alike or new_job)[0])}")


def _content(item: Object) -> str | None:
    """Return the chart's hash of what a running job cannot take over."""
    content: str | None = ((item.get("metadata") or {}).get("annotations") or {}).get(CONTENT)
    return content


def _settled(changes: Iterable[Change]) -> list[Change]:
    """What an operator ignores in a running job holds for the one that replaces it."""
    found = list(changes)
    if any(change.effect == REPLACED for change in found):
        return [replace(change, effect=REPLACED) if change.effect == IGNORED else change for change in found]
    return found


def of_job(resource: Resource, old: Object, new: Object) -> Iterator[Change]:
    """Yield what a running job's own object makes of each changed field."""
    for path, before, after in _differences(old, new):
        yield Change(_effect(resource, path), f"{named(resource)}: {path}", _step(path, before, after))


def of_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return each changed value's path and how it changes."""
    found = [one for one in _differences(old, new) if not _is_same_number(*one)]
    return {path: _step(path, before, after) for path, before, after in found}


def _is_same_number(path: str, before: Any, after: Any) -> bool:
    try:
        return bool(NUMBERS.fullmatch(path)) and float(before) == float(after)
    except (TypeError, ValueError):
        return False


def named(resource: Resource) -> str:
    return f"{resource.kind} {resource.name}"


def is_resize(change: Change) -> bool:
    """Tell whether a running job gets another number of pods."""
    return bool(SIZE.fullmatch(change.what.partition(": ")[2]))


def value_of(path: str) -> str | None:
    """Return the value that decides on a field of the job, where it is known."""
    found = TEMPLATE_METADATA.search(path)
    return VALUES[found[1]] if found else None


def _effect(resource: Resource, path: str) -> str:
    if METADATA.fullmatch(path) or SIZE.fullmatch(path):
        return LIVE
    applied = APPLIED.get((resource.kind, resource.api_version))
    return LIVE if applied and re.fullmatch(applied, path) else IGNORED


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path, old and new content of all that differs; a list is one thing, and no map the same as an empty one."""
    old, new = ({} if one is None and isinstance(other, Mapping) else one for one, other in ((old, new), (new, old)))
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield path, old, new
        return
    for key in [*old, *(key for key in new if key not in old)]:
        yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)


def _step(path: str, before: Any, after: Any) -> str:
    """Say "2 -> 3"; what may be secret or is long is only said to change."""
    shown = [_shown(path, before), _shown(path, after)]
    return "changed" if None in shown else " -> ".join(map(str, shown))


def _shown(path: str, value: Any) -> str | None:
    if isinstance(value, Mapping | list) or any(f"{path}.".startswith(f"{start}.") for start in SECRETIVE):
        return None
    if path.startswith("spec.") and isinstance(value, str) and not TEMPLATE_METADATA.search(path):
        return None
    text = "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= SHOWN and "\n" not in text else None
