"""Read an MPIJob of kubeflow.org/v1alpha1, which has one pod template for launcher and workers.

The fields are those of pkg/apis/kubeflow/v1alpha1/types.go of mpi-operator v0.3.0, the last release with this version.
pkg/controllers/v1alpha1/mpi_job_controller.go of the same release shows how the operator uses them.
"""

from __future__ import annotations

from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.ledger import Path, text
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation
from distrain.workload.kinds import KUBEFLOW

SPEC: Path = ("spec",)
TEMPLATE: Path = ("spec", "template")
LAUNCHER: Path = ("spec", "mpiReplicaSpecs", "Launcher")
WORKER: Path = ("spec", "mpiReplicaSpecs", "Worker")
# Pairs of fields: the total number of processing units, and the number of units per node. The API has an older and a
# newer name for both.
UNITS = {"gpus": "gpusPerNode", "processingUnits": "processingUnitsPerNode"}
KEPT = ("backoffLimit", "activeDeadlineSeconds", "cleanPodPolicy")
GPU, CPU = "nvidia.com/gpu", "cpu"
# The default of the operator's flag --gpus-per-node: cmd/mpi-operator.v1alpha1/main.go, v0.3.0.
PER_NODE = 1
MASTER = "node-role.kubernetes.io/master"


def read_mpijob_v1alpha1(data: dict[str, Any], origin: str) -> Draft:
    """Convert an MPIJob v1alpha1 to values of the chart.

    Raise ValuesError if the number of processing units is not a multiple of the units of one worker.
    """
    translation = Translation(data, origin)
    translation.know(("apiVersion",), ("kind",), ("status",))
    translation.job.update(apiVersion=KUBEFLOW["MPIJob"].versions[0].api_version, kind="MPIJob")
    translation.copy(("metadata",), ("metadata",))
    containers = (*TEMPLATE, "spec", "containers")
    if not translation.blocks(containers):
        raise translation.refuse(containers, "has no container; write one there")
    for role in (LAUNCHER, WORKER):
        translation.copy((*role, "template"), TEMPLATE)
        translation.set((*role, "replicas"), 1)
    _program(translation)
    slots = _size(translation)
    _slots(translation, slots)
    for key in KEPT:
        translation.copy((*SPEC, key), (*SPEC, key))
    _on_master(translation)
    return translation.draft()


def _program(translation: Translation) -> None:
    """Remove the program from the workers and the resources from the launcher, as the operator does."""
    container = ("template", "spec", "containers", 0)
    translation.drop((*LAUNCHER, *container, "resources"))
    for key in ("command", "args", "workingDir"):
        translation.drop((*WORKER, *container, key))


def _size(translation: Translation) -> int:
    """Set the number of workers and their resources.

    Return the processing units of a worker, or 0 if the job names none.
    """
    source = translation.source
    given = [key for key in (*UNITS, "replicas") if source.get((*SPEC, key)) is not None]
    if len(given) != 1:
        words = f"has {', '.join(given)}, but may have only one of these" if given else "has no gpus and no replicas"
        raise translation.refuse(SPEC, f"{words}; set exactly one of the fields {', '.join(UNITS)} and replicas")
    path = (*SPEC, given[0])
    number = translation.number(path, 1)
    resource = _resource(translation)
    if given[0] == "replicas":
        translation.set((*WORKER, "replicas"), number, path)
        found = source.get((*TEMPLATE, "spec", "containers", 0, "resources", "limits", resource), 0)
        return int(found) if str(found).isdecimal() else 0
    return _allocate(translation, path, number, resource)


def _resource(translation: Translation) -> str:
    """Return the resource of a processing unit; the operator treats an unknown resource as GPUs."""
    path = (*SPEC, "processingResourceType")
    named = translation.source.get(path, GPU)
    translation.know(path)
    if named not in (GPU, CPU):
        translation.notes.append(
            f"{text(path)}: the operator does not know {quoting.value(named)}, and takes {GPU} for it"
        )
    return CPU if named == CPU else GPU


def _allocate(translation: Translation, path: Path, total: int, resource: str) -> int:
    per_node = (*SPEC, UNITS[str(path[-1])])
    most = translation.number(per_node, PER_NODE)
    if total >= most and total % most:
        raise translation.refuse(
            path, f"is {total}, but must be a multiple of {text(per_node)}, which is {most}; change one of the two"
        )
    each = min(total, most)
    if translation.source.get(per_node) is None:
        translation.notes.append(
            f"{text(per_node)}: is not set, so it is the operator's flag --gpus-per-node, {PER_NODE} by default; here "
            f"{total // each} workers have {each} each. Fewer workers with more GPUs give as many ranks"
        )
    limits = (*WORKER, "template", "spec", "containers", 0, "resources", "limits")
    if translation.get(limits) is None:
        translation.set(limits, {})
    translation.set((*WORKER, "replicas"), total // each, path, per_node)
    translation.set((*limits, resource), each, per_node if translation.source.get(per_node) is not None else path)
    return each


def _slots(translation: Translation, units: int) -> None:
    """Set the number of ranks per worker: slotsPerWorker or, if it is not set, one rank for each processing unit."""
    path = (*SPEC, "slotsPerWorker")
    if translation.source.get(path) is not None:
        translation.copy(path, path)
    elif units > 1:
        translation.set(path, units, (*SPEC, "processingUnitsPerNode"))


def _on_master(translation: Translation) -> None:
    """Place the launcher on a node of the control plane, as the operator does for launcherOnMaster."""
    path = (*SPEC, "launcherOnMaster")
    translation.know(path)
    if translation.source.get(path) is not True:
        return
    pod = (*LAUNCHER, "template", "spec")
    terms = [{"matchExpressions": [{"key": MASTER, "operator": "Exists"}]}]
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    translation.set((*pod, "affinity"), {"nodeAffinity": node}, path)
    translation.set((*pod, "tolerations"), [])
    translation.set((*pod, "tolerations", 0), {"key": MASTER, "effect": "NoSchedule"}, path)
    translation.notes.append(f"{text(path)}: newer clusters call the label node-role.kubernetes.io/control-plane")
