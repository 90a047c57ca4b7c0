"""Find the runtime that a TrainJob names, or build a substitute for a runtime that is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.jobsets.replicated_jobs import NODE, STEP_LABEL
from distrain.imports.ledger import Ledger
from distrain.imports.secrets import quoting
from distrain.values.placeholder import IMAGE

GROUP = "trainer.kubeflow.org"
VERSION = f"{GROUP}/v1alpha1"
TRAINJOB, CLUSTER_RUNTIME, NAMESPACED_RUNTIME = "TrainJob", "ClusterTrainingRuntime", "TrainingRuntime"
RUNTIMES = (CLUSTER_RUNTIME, NAMESPACED_RUNTIME)
# In the data of a TrainJob, the import keeps the runtime under this key.
RUNTIME = "runtime"
MPIRUN = re.compile(r"(?<![\w-])(mpirun|mpiexec)(?![\w-])")


def reference(job: dict[str, Any]) -> tuple[str, str]:
    """Return kind and name of the runtime that a TrainJob names."""
    ledger = Ledger(job)
    kind = ledger.get(("spec", "runtimeRef", "kind")) or CLUSTER_RUNTIME
    return str(kind), str(ledger.get(("spec", "runtimeRef", "name"), ""))


def refuse_reference(job: dict[str, Any], origin: str) -> None:
    """Raise ValuesError if a TrainJob names no runtime, or one of another kind."""
    kind, name = reference(job)
    group = Ledger(job).get(("spec", "runtimeRef", "apiGroup")) or GROUP
    if group != GROUP or kind not in RUNTIMES:
        words = (
            f"refers to a {quoting.key(kind)} of {quoting.key(group)}, but the import supports only "
            f"{' and '.join(RUNTIMES)} of {GROUP}"
        )
        raise ValuesError(f"{origin}: spec.runtimeRef: {words}; refer to one of these kinds")
    if not name:
        raise ValuesError(f"{origin}: spec.runtimeRef.name: is missing, so the TrainJob has no pods; write it there")


def runtime_of(job: dict[str, Any], items: Sequence[dict[str, Any]], origin: str) -> dict[str, Any] | None:
    """Find the runtime that a TrainJob names among objects; raise ValuesError if several objects have this name."""
    kind, name = reference(job)
    found = [
        each
        for each in items
        if (each.get("kind"), Ledger(each).get(("metadata", "name"))) == (kind, name)
        and str(each.get("apiVersion")).startswith(f"{GROUP}/")
    ]
    if len(found) > 1:
        raise ValuesError(
            f"{origin}: has {len(found)} {kind}s of the name {quoting.key(name)}; keep only the one that is meant"
        )
    return found[0] if found else None


def missing_words(job: dict[str, Any], policy: dict[str, Any]) -> str:
    """Say that a TrainJob's runtime is unknown, which mlPolicy is assumed, and how the user can supply the runtime."""
    kind, name = map(quoting.key, reference(job))
    starter = "mpirun, with the launcher as one of the nodes" if "mpi" in policy else "torchrun"
    resource = f"{kind.lower()}s.{GROUP}"
    namespace = Ledger(job).get(("metadata", "namespace"))
    flags = f" --namespace {quoting.key(namespace)}" if namespace and kind == NAMESPACED_RUNTIME else ""
    return (
        f"spec.runtimeRef: the {kind} {name} is not in the source, so its pods are not carried over, and {starter} is "
        f"assumed: append the output of `kubectl get{flags} {resource} {name} -o yaml` to the file after a line ---, "
        "or import trainjob/NAME from the cluster"
    )


def stand_in(job: dict[str, Any]) -> dict[str, Any]:
    """Return a substitute for a runtime that is not known.

    It starts the ranks with mpirun if the TrainJob's command contains mpirun, otherwise with torchrun.
    """
    ledger = Ledger(job)
    words = [str(ledger.get(("spec", "trainer", key), "")) for key in ("command", "args")]
    container = {"name": NODE, "image": IMAGE}
    trainer = _job(NODE, container, STEP_LABEL)
    if not MPIRUN.search(" ".join(words)):
        return _runtime({"torch": {}}, [trainer])
    nodes = _job(NODE, {**container, "command": ["/usr/sbin/sshd", "-De"]})
    return _runtime({"mpi": {"runLauncherAsNode": True}}, [nodes, _job("launcher", container, STEP_LABEL)])


def _runtime(policy: dict[str, Any], jobs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}}


def _job(name: str, container: dict[str, Any], label: str = "") -> dict[str, Any]:
    metadata = {"labels": {label: "trainer"}} if label else {}
    pod = {"spec": {"containers": [dict(container)]}}
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": pod}}}
