"""Compute the pods that a TrainJob, JobSet or MPIJob v1alpha1 creates, written as a job of the Kubeflow operators.

The tests compare the rendered job with this job. To be independent, this module uses no code of the import. Sources:
pkg/runtime and its plugins jobset, torch and mpi of kubeflow/trainer v2.3.0, and pkg/controllers/v1alpha1 of
mpi-operator v0.3.0.
"""

from __future__ import annotations

import copy
from typing import Any

Job = dict[str, Any]
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def expected(documents: list[Job]) -> Job:
    """Return the expected job: the job that the chart renders must have the same pods.

    In a TrainJob with MPI, the launcher does not train.
    """
    [job] = [each for each in documents if each["kind"] in ("TrainJob", "JobSet", "MPIJob")]
    if job["kind"] == "MPIJob":
        return _of_units(job)
    return _of_jobset(job) if job["kind"] == "JobSet" else _of_trainjob(job, documents)


def _job(kind: str, metadata: Job, **roles: Job) -> Job:
    field = "mpiReplicaSpecs" if kind == "MPIJob" else "pytorchReplicaSpecs"
    spec: Job = {field: roles}
    if kind == "MPIJob":
        limits = _container(roles["Worker"])["resources"].get("limits", {})
        spec["slotsPerWorker"] = int(limits.get("nvidia.com/gpu", 1))
    labels = {key: value for key, value in metadata.get("labels", {}).items() if not key.startswith("kueue")}
    return {"kind": kind, "metadata": {**metadata, "labels": labels}, "spec": spec}


def _container(role: Job) -> Job:
    container: Job = role["template"]["spec"]["containers"][0]
    container.setdefault("resources", {})
    return container


def _of_trainjob(job: Job, documents: list[Job]) -> Job:
    [runtime] = [each for each in documents if each["kind"].endswith("TrainingRuntime")]
    policy, template = runtime["spec"]["mlPolicy"], runtime["spec"]["template"]
    trainer = job["spec"].get("trainer", {})
    nodes = trainer.get("numNodes", policy.get("numNodes", 1))
    jobs = {each["name"]: each["template"] for each in template["spec"]["replicatedJobs"]}
    pods = {name: each["spec"]["template"] for name, each in jobs.items()}
    steps = {name: each.get("metadata", {}).get("labels", {}).get(STEP) for name, each in jobs.items()}
    [name] = [name for name, step in steps.items() if step == "trainer"]
    roles = {"Launcher" if "mpi" in policy else "Worker": _trainer(pods[name], trainer, has_program=True)}
    if "mpi" in policy:
        roles["Worker"] = _trainer(pods["node"], trainer, has_program=False)
        del _container(roles["Launcher"])["resources"]
        _container(roles["Launcher"])
        nodes = max(nodes - 1, 1) + 1
    roles["Worker"]["replicas"] = nodes
    _patch(job, roles, {"node": "Worker", name: "Launcher" if "mpi" in policy else "Worker"})
    if "mpi" not in policy:
        roles["Worker"]["template"]["spec"].setdefault("initContainers", []).extend(
            {"name": each} for each in steps if each.endswith("-initializer")
        )
    claims = [each for policy in template["spec"].get("volumeClaimPolicies", []) for each in policy["templates"]]
    roles["Worker"]["template"]["spec"].setdefault("volumes", []).extend(
        {"name": each["metadata"]["name"], "ephemeral": {"volumeClaimTemplate": {"spec": each["spec"]}}}
        for each in claims
    )
    labels = {**template.get("metadata", {}).get("labels", {}), **job["metadata"].get("labels", {})}
    return _job("MPIJob" if "mpi" in policy else "PyTorchJob", {**job["metadata"], "labels": labels}, **roles)


def _trainer(template: Job, trainer: Job, *, has_program: bool) -> Job:
    role = {"template": copy.deepcopy(template)}
    containers = role["template"]["spec"]["containers"]
    containers.sort(key=lambda each: each["name"] != "node")
    main = _container(role)
    fields = ("image", "command", "args") if has_program else ("image",)
    main.update({key: trainer[key] for key in fields if key in trainer})
    given = {each["name"]: each for each in trainer.get("env", [])}
    main["env"] = [*(each for each in main.get("env", []) if each["name"] not in given), *given.values()]
    for key, amounts in trainer.get("resourcesPerNode", {}).items():
        main["resources"][key] = {**main["resources"].get(key, {}), **amounts}
    return role


def _patch(job: Job, roles: Job, names: dict[str, str]) -> None:
    patches = [
        (each["name"], each["template"]["spec"]["template"]["spec"])
        for patch in job["spec"].get("runtimePatches", [])
        for each in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    ]
    patches += [(each["targetJobs"][0]["name"], each["spec"]) for each in job["spec"].get("podTemplateOverrides", [])]
    for name, patch in patches:
        pod = roles[names[name]]["template"]["spec"]
        pod.update({key: value for key, value in patch.items() if key in ("tolerations", "serviceAccountName")})
        pod["nodeSelector"] = {**pod.get("nodeSelector", {}), **patch.get("nodeSelector", {})}
        pod["volumes"] = [*pod.get("volumes", []), *patch.get("volumes", [])]
        for each in patch.get("containers", []):
            main = pod["containers"][0]
            main["volumeMounts"] = [*main.get("volumeMounts", []), *each.get("volumeMounts", [])]


def _of_jobset(job: Job) -> Job:
    found: Job = {}
    for each in job["spec"]["replicatedJobs"]:
        spec = each["template"]["spec"]
        number = each.get("replicas", 1) * spec.get("parallelism", 1)
        found[each["name"]] = {"replicas": number, "template": copy.deepcopy(spec["template"])}
    names = {"hosts": "Worker", "launcher": "Launcher", "leader": "Master", "workers": "Worker"}
    roles = {names[name]: role for name, role in found.items() if name in names}
    for role in roles.values():
        _container(role)
    return _job("MPIJob" if "Launcher" in roles else "PyTorchJob", job["metadata"], **roles)


def _of_units(job: Job) -> Job:
    spec = job["spec"]
    roles: Job = {name: {"template": copy.deepcopy(spec["template"])} for name in ("Launcher", "Worker")}
    units = spec.get("processingUnits", spec.get("gpus"))
    each = spec.get("processingUnitsPerNode", spec.get("gpusPerNode", 1))
    roles["Worker"]["replicas"] = spec.get("replicas") or units // each
    limits = _container(roles["Worker"])["resources"].setdefault("limits", {})
    if units:
        limits["nvidia.com/gpu"] = each
    _container(roles["Launcher"])["resources"] = {}
    roles["Worker"]["template"]["spec"]["containers"][0].pop("command", None)
    return _job("MPIJob", job["metadata"], **roles)
