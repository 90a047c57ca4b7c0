"""Create random jobs on the lab, and compare the pods that the real controllers create with the plugin's prediction.

The pods name a scheduler that the lab does not have, so no pod ever starts. Some workers also get pod fields that the
chart never sets but a user's tools may set. All other fields of the pods are those that the chart renders.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from distrain import kube
from distrain.derive.figures import size_of
from distrain.kube.quantities import all_units
from distrain.pods.pod_requests import pod_request
from distrain.workload.manifest import INSTANCE_LABEL, ROLE_LABEL, Job, PodRole, from_manifest
from lab.cluster import client
from tests.chart.expansion import documents, templates
from tests.chart.many import Request, render_many
from tests.chart.random_values import random_request
from tests.chart.scripts import pods as scripts

Object = dict[str, Any]

# The lab has no scheduler with this name, so these pods never start. Pods for which the chart sets no schedulerName get
# this name.
NOBODY = "nobody"
# All random jobs use these PriorityClasses and RuntimeClasses. The API server would refuse a pod that names a missing
# class.
CLASS = "made-pods"
CLASS_WITH_OVERHEAD = "made-pods-overhead"
OVERHEAD = {"cpu": "100m", "memory": "64Mi"}
# Old operators were built before Kubernetes had some of these pod fields, and may drop them. The pod-level requests are
# larger than those of any container, so they determine the pod's requests.
MORE = {
    "schedulingGates": [{"name": "example.com/budget"}],
    "resources": {"requests": {"cpu": "500", "memory": "500Gi"}},
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}
    ],
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    },
}
SIDECAR = {
    "name": "sidecar",
    "image": "sidecar",
    "restartPolicy": "Always",
    "ports": [{"containerPort": 9000, "hostPort": 9000}],
    "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "1Gi"}},
}
MOST_REPLICAS = 3
AT_ONCE = 50
_numbers = itertools.count()
SECONDS_FOR_A_BATCH = 240
# If a pod leaves out one of these fields, the API server sets it to this value.
DEFAULTS = {
    ("schedulerName", "default-scheduler"),
    ("protocol", "TCP"),
    ("terminationGracePeriodSeconds", 30),
    ("serviceAccountName", "default"),
    ("dnsPolicy", "ClusterFirst"),
    ("defaultMode", 0o644),
    ("expirationSeconds", 3600),
    ("apiVersion", "v1"),
    ("scheme", "HTTP"),
    ("timeoutSeconds", 1),
    ("periodSeconds", 10),
    ("successThreshold", 1),
    ("failureThreshold", 3),
}
# The API server sets `serviceAccount` from serviceAccountName, and `priority` and `preemptionPolicy` from the
# PriorityClass.
BY_API_SERVER = {"serviceAccount", "priority", "preemptionPolicy"}
# The controller that creates the pod sets these fields, so they may differ from the pod template.
BY_OPERATOR = {"restartPolicy", "hostname"}
NOT_COMPARED = (
    # Containers that operators add have their own images and commands. The scheduler does not read these fields.
    *("image", "command", "args"),
    # If this field is missing, the API server derives it from the image's tag.
    "imagePullPolicy",
    # Operators and the API server add volume mounts.
    "volumeMounts",
    # mpi-operator adds a search domain to dnsConfig.
    "searches",
)
JOB_KINDS = ("MPIJob", "PyTorchJob", "MXJob", "TFJob", "Job", "StatefulSet")


@dataclass(frozen=True)
class Trial:
    """A job that Helm rendered from random values, and the seed of the values."""

    seed: str
    manifest: str
    job: Job
    gpu_resource: str

    @property
    def instance(self) -> str:
        return self.job.main.labels[INSTANCE_LABEL]

    @property
    def replicas(self) -> int:
        return sum(role.replicas for role in self.job.roles)


def trials(kinds: Collection[tuple[str, str]], count: int, namespace: str) -> Iterator[Trial]:
    """Yield `count` random jobs of these kinds. A kind is a pair of apiVersion and kind."""
    seeds = iter(range(10**6))
    while count > 0:
        requests = [_fitted(random_request(next(seeds)), namespace) for _ in range(AT_ONCE)]
        for request, answer in zip(requests, render_many(requests), strict=True):
            rendering = answer["helm4"]
            assert not rendering.error, f"{request.name}: {rendering.error}"
            manifest = _for_nobody(rendering.manifest, with_more=int(request.name) % 3 == 0)
            if count > 0 and any((one["apiVersion"], one["kind"]) in kinds for one in documents(manifest)):
                count -= 1
                resource = request.values.get("workers", {}).get("gpuResource", "nvidia.com/gpu")
                yield Trial(request.name, manifest, from_manifest(manifest, "--manifest"), resource)


def _fitted(request: Request, namespace: str) -> Request:
    """Reduce the number of pods in a job's values, because the lab cannot hold all pods of so many jobs at once."""
    values = copy.deepcopy(request.values)
    workers = values.setdefault("workers", {})
    workers["replicas"] = min(workers.get("replicas", 2), MOST_REPLICAS)
    if values.get("gpus") is not None:
        values["gpus"] = workers["replicas"] * workers.get("gpus", 1)
    for key in ("minReplicas", "maxReplicas"):
        workers.pop(key, None)
    servers = values.get("servers", {})
    if servers.get("replicas"):
        servers["replicas"] = min(servers["replicas"], MOST_REPLICAS)
    # The pods never start, so the operator would end the job at its deadline.
    values["job"].pop("activeDeadlineSeconds", None)
    # A suspended job has no pods to compare.
    values["job"].pop("suspend", None)
    # All releases are in one namespace, so their objects must have different names.
    for key in ("nameOverride", "fullnameOverride"):
        values.pop(key, None)
    release = f"{request.release[:40]}-{request.name}"
    return replace(request, values=values, release=release, namespace=namespace, helms=("helm4",))


def _for_nobody(manifest: str, *, with_more: bool) -> str:
    """Return the manifest without hooks. Its pods name the classes of these tests, and no scheduler places them."""
    found = [one for one in documents(manifest) if "helm.sh/hook" not in one["metadata"].get("annotations", {})]
    for template in (template for document in found for template in templates(document)):
        spec = template["spec"]
        spec.setdefault("schedulerName", NOBODY)
        _name_classes(spec)
        for container in spec["containers"]:
            _drop_sleep(container)
        if with_more and template["metadata"]["labels"][ROLE_LABEL] == "worker":
            # The chart always sets the tolerations for unreachable nodes. Without these tolerations, the API server
            # adds its own, which the plugin must predict.
            spec.pop("tolerations", None)
            more = {key: value for key, value in MORE.items() if key not in spec}
            spec.update(copy.deepcopy(more), initContainers=[*spec.get("initContainers", []), SIDECAR])
    return _text(found)


def _name_classes(spec: Object) -> None:
    """Replace the names of classes in a pod by the names of the classes that `put_classes` creates."""
    if {"overhead", "runtimeClassName"} & set(spec):
        spec["runtimeClassName"] = CLASS_WITH_OVERHEAD if "overhead" in spec else CLASS
    if {"priorityClassName", "preemptionPolicy"} & set(spec):
        spec["priorityClassName"] = CLASS


def _drop_sleep(container: Object) -> None:
    """Remove a preStop handler that sleeps.

    Old operators do not know the field `sleep` and drop it. The API server then refuses the empty preStop handler.
    """
    if "sleep" in container.get("lifecycle", {}).get("preStop", {}):
        del container["lifecycle"]


def _text(objects: Iterable[Object]) -> str:
    # JSON quotes every string. PyYAML would write "1e3" without quotes, which other YAML parsers read as a number.
    return "\n---\n".join(map(json.dumps, objects))


def put_classes() -> None:
    """Create the PriorityClasses and RuntimeClasses that the pods name."""
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runc"}
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1, "preemptionPolicy": "Never"}
    client.apply(
        {**priority, "metadata": {"name": CLASS}},
        {**runtime, "metadata": {"name": CLASS}},
        {**runtime, "metadata": {"name": CLASS_WITH_OVERHEAD}, "overhead": {"podFixed": OVERHEAD}},
    )


def remove_classes() -> None:
    names = (f"priorityclass/{CLASS}", f"runtimeclass/{CLASS}", f"runtimeclass/{CLASS_WITH_OVERHEAD}")
    client.kubectl("delete", "--ignore-not-found", *names)


def differences(kinds: Collection[tuple[str, str]], count: int) -> Iterator[str]:
    """Create `count` random jobs. Yield each difference between a pod and its prediction, with the seed of the job."""
    # Each call creates its own namespace, because the namespace of the previous call may still be terminating.
    namespace = f"made-pods-{os.getpid()}-{next(_numbers)}"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        all_trials = trials(kinds, count, namespace)
        while batch := list(itertools.islice(all_trials, AT_ONCE)):
            yield from _of_batch(batch, namespace)
    finally:
        client.kubectl("delete", "namespace", namespace, "--wait=false")


def _of_batch(batch: Sequence[Trial], namespace: str) -> Iterator[str]:
    jobs = [one for trial in batch for one in documents(trial.manifest) if one["kind"] in JOB_KINDS]
    needed = [one for trial in batch for one in _needed(trial)]
    client.kubectl("apply", "--server-side", "-f", "-", stdin=_text(needed))
    # The API server drops fields that it does not know when Helm creates an object. `--validate=ignore` does the same.
    client.kubectl("create", "--validate=ignore", "-f", "-", stdin=_text(jobs))
    by_instance = _wait_for_pods(batch, namespace)
    hostfiles = _hostfiles(namespace)
    for trial in batch:
        made = by_instance.get(trial.instance, [])
        for line in (*_of_pods(trial, made), *_of_ranks(trial, made, hostfiles)):
            yield f"{trial.seed}: {line}"
    client.kubectl("delete", "-f", "-", "--wait=false", "--ignore-not-found", stdin=_text(jobs))


def _needed(trial: Trial) -> Iterator[Object]:
    """Yield the objects that must exist before the job's pods: the hostfile's ConfigMap, and the ServiceAccounts."""
    for document in documents(trial.manifest):
        if document["metadata"]["name"].endswith("-hostfile"):
            yield document
        for template in templates(document) if document["kind"] in JOB_KINDS else ():
            if name := template["spec"].get("serviceAccountName"):
                metadata = {"name": name, "namespace": document["metadata"]["namespace"]}
                yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _wait_for_pods(batch: Iterable[Trial], namespace: str) -> dict[str, list[Object]]:
    """Wait until each job has as many pods as predicted.

    Return the pods of each release, even if some pods are missing at the time limit.
    """
    deadline = time.monotonic() + SECONDS_FOR_A_BATCH
    while True:
        found: dict[str, list[Object]] = {}
        for pod in _get(namespace, "pods"):
            found.setdefault(pod["metadata"]["labels"].get(INSTANCE_LABEL, ""), []).append(pod)
        if all(len(found.get(trial.instance, ())) >= trial.replicas for trial in batch):
            return found
        if time.monotonic() > deadline:
            return found
        time.sleep(1)


def _get(namespace: str, kinds: str) -> list[Object]:
    found: list[Object] = json.loads(client.kubectl("-n", namespace, "get", kinds, "-o", "json"))["items"]
    return found


def _of_pods(trial: Trial, pods: Sequence[Object]) -> Iterator[str]:
    for role in trial.job.roles:
        of_role = [pod for pod in pods if pod["metadata"]["labels"].get(ROLE_LABEL) == role.component]
        if len(of_role) != role.replicas:
            yield f"{role.name}: {len(of_role)} pods, foretold {role.replicas}"
        for pod in of_role:
            yield from (f"{pod['metadata']['name']}: {line}" for line in _of_pod(trial, role, pod))


def _of_pod(trial: Trial, role: PodRole, pod: Object) -> Iterator[str]:
    real = msgspec.convert(pod, kube.Pod)
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key not in role.varying}
    facts = {
        "request": (pod_request(real.spec), role.request),
        "labels": (labels, role.labels),
        "namespace": (real.metadata.namespace, role.namespace),
        **_of_spec(trial, role, pod["spec"]),
    }
    for name, (found, foretold) in facts.items():
        if found != foretold:
            yield f"{name}: {found}, foretold {foretold}"


def _of_spec(trial: Trial, role: PodRole, real: Object) -> dict[str, tuple[Any, Any]]:
    """Return every pod field that the plugin reads: name -> (real value, predicted value)."""
    read = msgspec.convert(real, type(role.spec))
    found = _normal(msgspec.to_builtins(read)) or {}
    foretold = _normal(msgspec.to_builtins(role.spec)) or {}
    # The controllers may add volumes only for ConfigMaps and Secrets that they create themselves. The API server adds a
    # volume with the ServiceAccount's token.
    names = {volume.name for volume in role.spec.volumes or ()}
    added = [volume for volume in real.get("volumes", ()) if volume["name"] not in names]
    found["volumes"] = [volume for volume in found.get("volumes", ()) if volume["name"] in names]
    missing = {name for volume in added for name in _objects(volume)} - trial.job.creates
    account = real["serviceAccountName"]
    if account.endswith("-launcher"):
        # The operator creates this ServiceAccount, so that the launcher may run `kubectl exec`.
        missing |= {("ServiceAccount", account)} - trial.job.creates
        found["serviceAccountName"] = foretold.get("serviceAccountName")
    keys = sorted({*found, *foretold} - BY_API_SERVER - BY_OPERATOR)
    return {
        "objects that nobody is said to make": (missing, set()),
        "types of volumes": (_types(read, names), _types(role.spec, names)),
        **{key: (found.get(key) or None, foretold.get(key) or None) for key in keys},
    }


def _types(spec: kube.TemplateSpec, names: Collection[str]) -> dict[str, list[str]]:
    return {volume.name: volume.sources for volume in spec.volumes or () if volume.name in names}


def _objects(volume: Object) -> Iterator[tuple[str, str]]:
    if "secret" in volume:
        yield "Secret", volume["secret"]["secretName"]
    if "configMap" in volume:
        yield "ConfigMap", volume["configMap"]["name"]


def _normal(part: Any, key: str = "") -> Any:
    """Normalize a part of a pod, so that two notations of the same pod are equal."""
    if key == "env" and part:
        # Operators add environment variables without `valueFrom`, and the Job controller adds JOB_COMPLETION_INDEX.
        part = [{"valueFrom": each.get("valueFrom")} for each in part if each["name"] != "JOB_COMPLETION_INDEX"]
    if isinstance(part, list):
        return [one for one in map(_normal, part) if one]
    if not isinstance(part, dict):
        return None if (key, part) in DEFAULTS else part
    if key == "resources" and part:
        limits = all_units(part.get("limits"))
        part = {"limits": limits, "requests": {**limits, **all_units(part.get("requests"))}}
    if key == "overhead":
        part = all_units(part)
    if part.get("sizeLimit"):
        # The API server changes the notation of a sizeLimit: 2000000 becomes 2M.
        part = {**part, "sizeLimit": all_units({"memory": part["sizeLimit"]})}
    kept = {name: _normal(value, name) for name, value in part.items() if name not in NOT_COMPARED}
    return {name: value for name, value in kept.items() if value is not None and value != []} or None


def _of_ranks(trial: Trial, pods: Sequence[Object], hostfiles: dict[str, str]) -> Iterator[str]:
    """Compare the predicted number of ranks with the number in the job's hostfile or environment variables.

    Yield one line if they differ.
    """
    foretold = size_of(trial.job, trial.gpu_resource).ranks
    kind, name = trial.job.resources[0].kind, trial.job.resources[0].name
    if kind in ("MPIJob", "Job"):
        told = _ranks_of_hosts(hostfiles.get(name.removesuffix("-launcher"), ""))
    else:
        told = max((_ranks_told(kind, pod, pods) for pod in pods), default=0)
        if kind == "MXJob":
            told *= max(trial.job.main.request.get(trial.gpu_resource, 0), 1)
    if told != foretold:
        yield f"{told} ranks, foretold {foretold}"


def _hostfiles(namespace: str) -> dict[str, str]:
    """Return the hostfiles from the namespace's ConfigMaps, keyed by job name."""
    found = {}
    for config in _get(namespace, "configmaps"):
        if "hostfile" in (config.get("data") or {}):
            found[config["metadata"]["name"].rpartition("-")[0]] = config["data"]["hostfile"]
    return found


def _ranks_of_hosts(hostfile: str) -> int:
    """Return the number of ranks that distrain-launch reads from this hostfile."""
    launch = scripts.load("distrain-launch")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hostfile"
        path.write_text(hostfile)
        return sum(launch.read_hostfile(str(path)).values())


def _ranks_told(kind: str, pod: Object, pods: Sequence[Object]) -> int:
    """Return the number of ranks from the environment variables that the operator sets in the pod."""
    env = {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0].get("env", [])}
    if kind == "TFJob":
        return len(json.loads(env["TF_CONFIG"])["cluster"]["worker"])
    if kind == "MXJob":
        return int(env["DMLC_NUM_WORKER"])
    return int(env.get("WORLD_SIZE") or len(pods) * int(env["PET_NPROC_PER_NODE"]))
