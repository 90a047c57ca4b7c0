"""Compare a rendered job with its source field by field, without using the import's own code."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from distrain.imports.draft import Draft
from distrain.kube import quantities

Job = dict[str, Any]
# REPLICAS maps a kind of job to the name of the field that contains its replica specs.
REPLICAS = {
    "MPIJob": "mpiReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}
SAME_FIELDS = (
    "affinity",
    "priorityClassName",
    "runtimeClassName",
    "topologySpreadConstraints",
    "hostNetwork",
    "hostIPC",
)
POLICY = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend")
# Mount paths that the chart adds to each pod.
OWN_FOLDERS = {"/dev/shm"}


def differences(source: Job, job: Job, draft: Draft) -> Iterator[str]:
    """Yield the path of each field of the source that is missing in the rendered job and in the import's list."""
    listed = [each for place, _ in draft.lost for each in spelled_out(place)]
    for path, is_there in _fields(source, job):
        is_listed = any(path.startswith(place) or place.startswith(path) for place in listed)
        if not is_there and not is_listed:
            yield path


def spelled_out(place: str) -> list[str]:
    """Expand a path such as spec.{a,b}.c into the paths spec.a.c and spec.b.c. Commas separate several notations."""
    if braces := re.search(r"\{([^}]*)\}", place):
        before, after = place[: braces.start()], place[braces.end() :]
        return [each for name in braces[1].split(",") for each in spelled_out(f"{before}{name}{after}")]
    return place.split(", ")


def _fields(source: Job, job: Job) -> Iterator[tuple[str, bool]]:
    kind = source["kind"]
    specs, ours = source["spec"][REPLICAS[kind]], job["spec"][REPLICAS[kind]]
    total = sum(ours[role].get("replicas", 1) for role in ("Master", "Worker") if role in ours)
    wanted = sum(
        specs[role].get("replicas", 1) for role in ("Master", "Worker") if role in specs and kind == "PyTorchJob"
    )
    yield f"spec.{REPLICAS[kind]}.Worker.replicas", total == (wanted or specs["Worker"].get("replicas", 1))
    for role, spec in specs.items():
        rendered = ours.get(role) or (ours["Worker"] if role == "Master" else {})
        path = f"spec.{REPLICAS[kind]}.{role}.template"
        if not rendered:
            yield path.removesuffix(".template"), False
            continue
        yield from _pod(spec["template"], rendered["template"], path, is_launcher=role == "Launcher")
    yield from _program(source, specs, ours)
    yield from _policy(source, job)
    for key in ("labels", "annotations"):
        for name, value in (source["metadata"].get(key) or {}).items():
            is_own = name.startswith(("kueue.x-k8s.io/", "kubectl.kubernetes.io/"))
            path = f"metadata.{key}.{name}" if re.fullmatch(r"[\w-]+", name) else f"metadata.{key}[{name}]"
            yield path, is_own or job["metadata"].get(key, {}).get(name) == value
    if kind == "MPIJob":
        yield "spec.slotsPerWorker", source["spec"].get("slotsPerWorker", 1) == job["spec"]["slotsPerWorker"]


def _policy(source: Job, job: Job) -> Iterator[tuple[str, bool]]:
    spec, ours = source["spec"], {**job["spec"], **job["spec"].get("runPolicy", {})}
    for place, found in (("spec", spec), ("spec.runPolicy", spec.get("runPolicy") or {})):
        if "cleanPodPolicy" in found:
            yield f"{place}.cleanPodPolicy", ours.get("cleanPodPolicy") == found["cleanPodPolicy"]
        for field in POLICY:
            if field in found:
                yield f"{place}.{field}", ours.get(field) == found[field]


def _pod(source: Job, ours: Job, path: str, *, is_launcher: bool) -> Iterator[tuple[str, bool]]:
    for key in ("labels", "annotations"):
        for name, value in ((source.get("metadata") or {}).get(key) or {}).items():
            yield f"{path}.metadata.{key}", ours["metadata"][key].get(name) == value
    spec, pod = source["spec"], ours["spec"]
    for field in SAME_FIELDS:
        if field in spec:
            yield f"{path}.spec.{field}", pod.get(field) == spec[field]
    for name, value in (spec.get("nodeSelector") or {}).items():
        yield f"{path}.spec.nodeSelector", pod.get("nodeSelector", {}).get(name) == value
    for each in spec.get("tolerations") or []:
        yield f"{path}.spec.tolerations", each in pod.get("tolerations", [])
    for each in spec.get("imagePullSecrets") or []:
        yield f"{path}.spec.imagePullSecrets", each in pod.get("imagePullSecrets", [])
    if "serviceAccountName" in spec:
        yield f"{path}.spec.serviceAccountName", pod["serviceAccountName"] == spec["serviceAccountName"]
    user = (spec.get("securityContext") or {}).get("runAsUser")
    yield f"{path}.spec.securityContext.runAsUser", user is None or pod["securityContext"].get("runAsUser") == user
    yield from _volumes(spec, pod, path)
    names = [each["name"] for each in (pod.get("initContainers") or []) + pod["containers"]]
    for key in ("initContainers", "containers"):
        for index, each in enumerate((spec.get(key) or [])[key == "containers" :]):
            yield f"{path}.spec.{key}[{index + (key == 'containers')}]", each["name"] in names
    yield from _container(
        spec["containers"][0], pod["containers"][0], f"{path}.spec.containers[0]", is_launcher=is_launcher
    )


def _volumes(spec: Job, pod: Job, path: str) -> Iterator[tuple[str, bool]]:
    mounts = {posixpath.normpath(each["mountPath"]): each for each in pod["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    named = {each["name"]: each for each in spec.get("volumes") or []}
    for index, mount in enumerate(spec["containers"][0].get("volumeMounts") or []):
        folder = posixpath.normpath(mount["mountPath"])
        ours = mounts.get(folder, {})
        rest = {key: value for key, value in mount.items() if key not in ("name", "mountPath")}
        kind = {key: value for key, value in named[mount["name"]].items() if key != "name"}
        found = {key: value for key, value in volumes.get(ours.get("name"), {}).items() if key != "name"}
        size = kind.get("emptyDir", {}).get("sizeLimit")
        if folder in OWN_FOLDERS:
            is_there = size is None or found["emptyDir"]["sizeLimit"] == size
        else:
            is_there = found == kind and all(ours.get(key) == value for key, value in rest.items())
        yield f"{path}.spec.containers[0].volumeMounts[{index}]", is_there


def _container(source: Job, ours: Job, path: str, *, is_launcher: bool) -> Iterator[tuple[str, bool]]:
    image = source["image"]
    tagged = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
    yield (
        f"{path}.image",
        ours["image"] == (tagged if "@" not in image else image.replace(image.partition("@")[0], _bare(image))),
    )
    if "imagePullPolicy" in source:
        yield f"{path}.imagePullPolicy", ours["imagePullPolicy"] == source["imagePullPolicy"]
    amounts = source.get("resources") or {}
    for kind in ("limits", "requests"):
        for name, amount in (amounts.get(kind) or {}).items():
            found = (
                ours.get("resources", {}).get(kind, {}).get(name, ours.get("resources", {}).get("limits", {}).get(name))
            )
            equal = found is not None and quantities.thousandths(found) == quantities.thousandths(amount)
            yield f"{path}.resources.{kind}", equal
    env = {each["name"]: each for each in ours.get("env") or []}
    for index, each in enumerate(source.get("env") or []):
        found = env.get(each["name"], {})
        is_secret = found.get("valueFrom", {}).get("secretKeyRef", {}).get("name", "").endswith("-credentials")
        yield (
            f"{path}.env[{index}]",
            is_secret or found == {**each, **({"value": str(each["value"])} if "value" in each else {})},
        )
    for each in source.get("envFrom") or []:
        yield f"{path}.envFrom", each in (ours.get("envFrom") or [])
    user = (source.get("securityContext") or {}).get("runAsUser")
    _ = is_launcher, user


def _bare(image: str) -> str:
    """Return an image's name without its tag. If an image's name has a digest, its tag has no effect."""
    name = image.partition("@")[0]
    return name[: name.rindex(":")] if ":" in name.rpartition("/")[2] else name


def _program(source: Job, specs: Job, ours: Job) -> Iterator[tuple[str, bool]]:
    role = "Launcher" if "Launcher" in specs else "Worker" if "Worker" in specs else "Master"
    container = specs[role]["template"]["spec"]["containers"][0]
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    args = [str(word) for word in ours[role if role in ours else "Master"]["template"]["spec"]["containers"][0]["args"]]
    program = args[len(args) - args[::-1].index("--") :] if "--" in args else args
    tail = words[len(words) - 1 :]
    is_script = bool(words) and len(words[-1].split()) > 1
    yield (
        f"spec.{REPLICAS[source['kind']]}.{role}.template.spec.containers[0]",
        is_script or program[-1:] == tail or not words,
    )
