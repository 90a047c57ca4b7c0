"""Test that no field of a job is dropped silently: the import makes a value of each field of the CRDs, or lists it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml

from distrain.imports.ledger import Path
from distrain.workload.kinds import KUBEFLOW
from lab.builds import module_sources
from tests.chart.api_schemas import crd_schema
from tests.plugin.imports.completeness.samples import Samples, Schema, at, fields, pod_fields, with_value
from tests.plugin.imports.completeness.told import untold_of_job
from tests.plugin.imports.drafts import Job, mpi_job, pytorch_job
from tests.plugin.imports.jobset_drafts import TORCHRUN, jobset, replicated, runtime, trainjob

CONTAINERS = {"TFJob": "tensorflow", "MXJob": "mxnet"}
ROLES = {
    "MPIJob": ("Launcher", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "TFJob": ("Chief", "PS", "Worker"),
    "MXJob": ("Scheduler", "Server", "Worker"),
}
CRDS = ("MPIJob v2beta1", "MPIJob v1", "PyTorchJob v1", "TFJob v1", "MXJob v1")
TRAINER = module_sources.folder("github.com/kubeflow/trainer/v2@v2.3.0") / "manifests/base/crds"
RUNTIMES = (("parallelism",), ("template", "spec", "containers", 0, "command", 0))
# The test does not try these fields as a whole. It tries the fields inside a block such as `containers` one by one, and
# a number of pods allows only certain values.
PARTS = {"containers", "replicas", "template", "replicatedJobs", "trainer"}
# Fields that the import need not carry over: names of objects, and fields of the runtime that the Trainer replaces.
NEEDLESS: tuple[Path, ...] = (
    (0, "name"),
    ("runtimeRef", "name"),
    *(("runtimePatches", 0, key) for key in ("manager", "time")),
    *(("runtime", "spec", "template", "spec", "replicatedJobs", 0, "template", "spec", *path) for path in RUNTIMES),
)
# If a field has this value, the import need not list it, because every run of the chart behaves in this way.
SAME: dict[str, Any] = {
    "operator": "All",
    "mpiImplementation": "OpenMPI",
    "launcherCreationPolicy": "AtStartup",
    "jobMode": "MXTrain",
    "restartStrategy": "Recreate",
    "startupPolicyOrder": "AnyOrder",
    "enableDNSHostnames": True,
    "publishNotReadyAddresses": True,
    "completionMode": "Indexed",
    **dict.fromkeys(("runLauncherAsWorker", "suspend", "enableServiceLinks"), False),
    **dict.fromkeys(("hostIPC", "hostNetwork", "hostPID", "shareProcessNamespace", "stdin", "tty"), False),
}


def _job(kind: str) -> Job:
    if kind in ("MPIJob", "PyTorchJob"):
        return mpi_job() if kind == "MPIJob" else pytorch_job()
    replica = pytorch_job({"name": CONTAINERS[kind]})["spec"]["pytorchReplicaSpecs"]["Master"]
    specs = dict.fromkeys(ROLES[kind], replica)
    spec = {KUBEFLOW[kind].replicas: specs}
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "job"}, "spec": spec}


def _fields(schema: Schema, kind: str) -> Iterator[tuple[Path, Schema]]:
    """Yield the fields of a job's spec, its policies, its roles, and the roles' pods."""
    replicas = KUBEFLOW[kind].replicas
    spec = at(schema, "spec")
    role = spec["properties"].pop(replicas)["additionalProperties"]
    yield from _one_by_one(spec, ("spec",))
    for name in ROLES[kind]:
        place: Path = ("spec", replicas, name)
        yield from fields(role, place)
        yield from pod_fields(at(role, "template", "spec"), (*place, "template", "spec"))


def _one_by_one(schema: Schema, place: Path) -> Iterator[tuple[Path, Schema]]:
    """Yield the fields of an object. If a field is itself an object, yield the fields of this object instead."""
    for path, each in fields(schema, place):
        if path[-1] not in PARTS:
            yield from fields(each, path) if each.get("properties") else [(path, each)]


def _untold(base: Job, found: Iterable[tuple[Path, Schema]]) -> list[str]:
    samples, untold = Samples(), []
    for path, schema in found:
        if path[-1] in PARTS:
            continue
        for value in samples.each(schema):
            if value != SAME.get(str(path[-1]), ...):
                untold += untold_of_job(with_value(base, path, value), path, NEEDLESS)
    return untold


@pytest.mark.parametrize("crd", CRDS)
def test_each_field_of_a_job_is_carried_over_or_listed(crd: str) -> None:
    kind, version = crd.split()
    base = {**_job(kind), "apiVersion": f"kubeflow.org/{version}"}

    untold = _untold(base, _fields(copy.deepcopy(crd_schema(crd)), kind))

    assert untold == [], "\n".join(untold)


def _trainer(name: str) -> Schema:
    crd = yaml.load((TRAINER / f"trainer.kubeflow.org_{name}.yaml").read_text(), yaml.CSafeLoader)
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _jobset_fields(spec: Schema, place: Path) -> Iterator[tuple[Path, Schema]]:
    """Yield the fields of a JobSet's spec, its first replicated job, the Job and the pods."""
    job, path = at(spec, "replicatedJobs"), (*place, "replicatedJobs", 0)
    inner = at(job, "template", "spec")
    yield from _one_by_one(spec, place)
    yield from fields(job, path)
    yield from _one_by_one(inner, (*path, "template", "spec"))
    yield from pod_fields(at(inner, "template", "spec"), (*path, "template", "spec", "template", "spec"))


def test_each_field_of_a_jobset_is_carried_over_or_listed() -> None:
    spec = at(_trainer("trainingruntimes"), "spec", "template", "spec")

    untold = _untold(jobset(replicated("node", {"command": TORCHRUN})), _jobset_fields(spec, ("spec",)))

    assert untold == [], "\n".join(untold)


def test_each_field_of_a_trainjob_and_its_runtime_is_carried_over_or_listed() -> None:
    job, template = _trainer("trainjobs"), at(_trainer("trainingruntimes"), "spec", "template", "spec")
    found = [
        *_one_by_one(at(job, "spec"), ("spec",)),
        *fields(at(job, "spec", "trainer"), ("spec", "trainer")),
        *_jobset_fields(template, ("runtime", "spec", "template", "spec")),
    ]

    untold = _untold({**trainjob(), "runtime": runtime()}, found)

    assert untold == [], "\n".join(untold)
