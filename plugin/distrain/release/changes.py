"""Compare two revisions of a release, and classify each change as live, replaced or ignored.

These are pure functions of rendered objects and values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from distrain import redact
from distrain.kube.resource import Resource
from distrain.workload.documents import HOOK
from distrain.workload.kinds import FACTS, KUBEFLOW, PLAIN, VERSIONS
from distrain.workload.wording import listed
from distrain.yaml import yaml_loader

Object = dict[str, Any]
Objects = dict[Resource, Object]

CONTENT = "distrain/content"
LIVE, REPLACED, IGNORED = "live", "replaced", "ignored"
# These fields set the number of pods. If the job's kind can rescale live, the chart leaves the number of pods out of
# the annotation distrain/content.
_REPLICAS = [rf"{kind.replicas}\.\w+\.replicas" for kind in KUBEFLOW.values()]
SIZE = re.compile(rf"spec\.({'|'.join([*_REPLICAS, *PLAIN.size])})|spec\.runPolicy\.schedulingPolicy\.min.*")
# For each kind, the fields that the operator or Kubernetes also applies to a running job. All other fields have an
# effect only when pods are created.
APPLIED = {
    **{(kind, api_version): version.live for (api_version, kind), version in VERSIONS.items()},
    ("Job", "batch/v1"): PLAIN.live,
}
METADATA = re.compile(r"metadata\.(labels|annotations)(\..*)?")
# The chart values that set labels and annotations of a pod template, besides the labels and annotations of its role.
TEMPLATE_METADATA = re.compile(r"template\.metadata\.(labels|annotations)")
VALUES = {
    "labels": ("podLabels", "commonLabels"),
    "annotations": ("podAnnotations", "commonAnnotations"),
}
# The annotations of pods that the section `monitoring` sets.
METRICS = ".prometheus.io/"
# The keys that serviceMesh sets in a pod. Earlier charts did not set the last two keys, so only pods that are created
# after an upgrade have them.
MESH = re.compile(r"(sidecar\.istio\.io/inject|istio\.io/dataplane-mode|linkerd\.io/inject)$")
NO_MESH = ("disabled", "none")
# Messages name these values but never show their content, which may be long or contain secrets. redact.py knows further
# such values.
SECRETIVE = ("podSpec", *(f"{section}.podSpec" for section in sorted({*FACTS.roles.values()})))
SHOWN = 60
# A text that needs no quotes in YAML, unless YAML would read it as a boolean or null.
PLAIN_TEXT = re.compile(r"[A-Za-z][\w./-]*")
# The chart renders these values as numbers, although --set passes a fraction as a string.
NUMBERS = re.compile(r"trainer\.learningRate|data\.maxBadShare|(workers|launcher|servers|scheduler)\.cpu")


class Change(Struct, frozen=True):
    """One change: its effect (live, replaced or ignored), the object or value, and its old and new content in words."""

    effect: str
    what: str
    how: str


def objects(manifest: str) -> Objects:
    """Parse the objects of a manifest, without Helm hooks: Helm creates and deletes the hooks at each upgrade."""
    documents = [document for document in yaml_loader.load_all(manifest) if isinstance(document, dict)]
    found = {}
    for item in documents:
        metadata = item.get("metadata") or {}
        if HOOK not in (metadata.get("annotations") or {}):
            found[Resource(str(item.get("apiVersion")), str(item.get("kind")), str(metadata.get("name")))] = item
    return found


def of_objects(old: Objects, new: Objects, old_job: Sequence[Resource], new_job: Sequence[Resource]) -> list[Change]:
    """List the changes between two sets of objects.

    `old_job` and `new_job` are the resources that create the pods, each with the job's main resource first. Objects
    that are named after a job are created and deleted together with the job, so their changes are not listed
    separately.
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
    if any(change.effect == REPLACED for change in changes):
        # The new job starts with the new values of these fields.
        return [replace(change, effect=REPLACED) if change.effect == IGNORED else change for change in changes]
    return changes


def name_of(job: Sequence[Resource]) -> str:
    """Return the prefix that the names of all objects of a job have in common."""
    return job[0].name.removesuffix("-launcher") if job[0].kind == "Job" else job[0].name


def _comes_with_job(resource: Resource, job: str) -> bool:
    """Tell from an object's name whether the object belongs to the job `job`.

    Names of the job's objects begin with the job's name and a hyphen. Only its Service and its PodGroup have exactly
    the job's name. An object of another kind with exactly this name belongs to the release, but not to the job.
    """
    return resource.name.startswith(f"{job}-") or (resource.name == job and resource.kind in ("Service", "PodGroup"))


def _of_job_object(resource: Resource, old: Objects, new: Objects, new_job: Sequence[Resource]) -> Iterator[Change]:
    if resource in new:
        before, after = (_content(each[resource]) for each in (old, new))
        if before and after and before != after:
            yield Change(REPLACED, named(resource), "ended, then created anew")
            return
        for path, was, will_be in _differences(old[resource], new[resource]):
            if MESH.search(path) and was is None and will_be in NO_MESH:
                continue
            yield Change(_effect(resource, path), f"{named(resource)}: {path}", _step(path, was, will_be))
        return
    part = resource.name.rpartition("-")[2]
    # A job of kind Plain consists of several resources, whose names differ in the suffix.
    alike = [made for made in new_job if made.name.rpartition("-")[2] == part]
    yield Change(REPLACED, named(resource), f"by {named((alike or new_job)[0])}")


def _content(item: Object) -> str | None:
    """Return the hash that the chart computes from the fields that cannot change in a running job."""
    content: str | None = ((item.get("metadata") or {}).get("annotations") or {}).get(CONTENT)
    return content


def of_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """For each changed value, return by path how it changes ("2 -> 3")."""
    found = [one for one in _differences(old, new) if not _is_same_number(*one)]
    return {path: _step(path, before, after) for path, before, after in found}


def settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a dict from the path of each changed value to the line that sets it, such as "workers.replicas: 4".

    The dict has None for a value that the new values no longer set.
    """
    found = [one for one in _differences(old, new) if not _is_same_number(*one)]
    return {path: None if value is None else f"{path}: {_written(path, value)}" for path, _, value in found}


def _written(path: str, value: Any) -> str:
    """Return a value in YAML, or "..." if the value is secret or long."""
    text = json.dumps(value)
    if _is_secretive(path) or redact.shown(path, value) != value or len(text) > SHOWN:
        return "..."
    is_plain = isinstance(value, str) and PLAIN_TEXT.fullmatch(value) and yaml_loader.load(value) == value
    return str(value) if is_plain else text


def _is_same_number(path: str, before: Any, after: Any) -> bool:
    try:
        return bool(NUMBERS.fullmatch(path)) and float(before) == float(after)
    except (TypeError, ValueError):
        return False


def named(resource: Resource) -> str:
    return f"{resource.kind} {resource.name}"


def is_resize(change: Change) -> bool:
    """Tell whether a change sets the number of pods of a running job."""
    return bool(SIZE.fullmatch(change.what.partition(": ")[2]))


def value_of(path: str, changed: Iterable[str]) -> str:
    """Return which of the changed values set this field of the job, or the field itself if this is not known."""
    found = TEMPLATE_METADATA.search(path)
    if not found:
        return path
    if MESH.search(path):
        return "serviceMesh"
    metadata, key = found[1], path[found.end() :]
    endings = [f".{each}{key}" for each in (metadata, *VALUES[metadata])]
    setting = [value for value in changed if f".{value}".endswith(tuple(endings))]
    if key.startswith(METRICS):
        setting = [value for value in changed if value.startswith("monitoring.")]
    return listed(setting) if setting else path


def _effect(resource: Resource, path: str) -> str:
    if METADATA.fullmatch(path) or SIZE.fullmatch(path):
        return LIVE
    applied = APPLIED.get((resource.kind, resource.api_version), ())
    return LIVE if any(f"{path}.".startswith(f"spec.{field}.") for field in applied) else IGNORED


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """For each difference, yield the path, the old content and the new content.

    Lists are compared as a whole. A missing map is the same as an empty map.
    """
    old, new = ({} if one is None and isinstance(other, Mapping) else one for one, other in ((old, new), (new, old)))
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield path, old, new
        return
    for key in [*old, *(key for key in new if key not in old)]:
        yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)


def _step(path: str, before: Any, after: Any) -> str:
    """Return "2 -> 3", or only "changed" if the old or the new content is secret, long or not a scalar."""
    shown = [_shown(path, before), _shown(path, after)]
    return "changed" if None in shown else " -> ".join(map(str, shown))


def _is_secretive(path: str) -> bool:
    return any(f"{path}.".startswith(f"{start}.") for start in SECRETIVE)


def _shown(path: str, value: Any) -> str | None:
    if isinstance(value, Mapping | list) or _is_secretive(path):
        return None
    if path.startswith("spec.") and isinstance(value, str) and not TEMPLATE_METADATA.search(path):
        return None
    if redact.shown(path, value) != value:
        return None
    text = "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= SHOWN and "\n" not in text else None
