"""Provide small TrainJobs, runtimes and JobSets for the tests of the import."""

from __future__ import annotations

from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.identify import find_job
from distrain.imports.read import finished, read
from distrain.yaml import yaml_writer
from tests.plugin.imports.drafts import FILE, accepting

Job = dict[str, Any]
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
TORCHRUN = ["torchrun", "train.py"]


def drafted(*documents: Job) -> Draft:
    """Return the draft of the job in these documents. The chart is assumed to accept all of its values."""
    draft = read(find_job(yaml_writer.dump(*documents), FILE), FILE)
    finished(draft, accepting, FILE)
    return draft


def trainjob(trainer: Job | None = None, **spec: Any) -> Job:
    """Return a TrainJob with the runtime `torch`.

    `trainer` has fields of spec.trainer; all other arguments are fields of spec.
    """
    fields = {"command": TORCHRUN, **(trainer or {})}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "job"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": fields, **spec},
    }


def runtime(policy: Job | None = None, jobs: list[Job] | None = None, **spec: Any) -> Job:
    """Return the runtime `torch` with this mlPolicy and these replicated jobs.

    `spec` has additional fields of the JobSet's spec.
    """
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch"},
        "spec": {
            "mlPolicy": policy or {"torch": {}},
            "template": {"spec": {"replicatedJobs": jobs or [replicated("node", step="trainer")], **spec}},
        },
    }


def mpi_runtime(nodes: Job | None = None, **policy: Any) -> Job:
    """Return a runtime that starts the ranks with MPI.

    `nodes` has fields of the nodes' container; `policy` has fields of mlPolicy.mpi.
    """
    sshd = replicated("node", {"command": ["/usr/sbin/sshd", "-De"], **(nodes or {})})
    return runtime({"mpi": {"numProcPerNode": 1, **policy}}, [sshd, replicated("launcher", step="trainer")])


def replicated(name: str, container: Job | None = None, step: str = "", **job: Any) -> Job:
    """Return a replicated job.

    `container` has fields of the job's container, which is called node; `job` has fields of the spec of its Job.
    """
    fields = {"name": "node", "image": "a/b:1", **(container or {})}
    labels = {"metadata": {"labels": {STEP: step}}} if step else {}
    return {"name": name, "template": {**labels, "spec": {**job, "template": {"spec": {"containers": [fields]}}}}}


def jobset(*jobs: Job, **spec: Any) -> Job:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [*jobs], **spec},
    }


def pod_of(found: Job) -> Job:
    """Return the pod spec of a replicated job. A change to the returned spec also changes the replicated job."""
    pod: Job = found["template"]["spec"]["template"]["spec"]
    return pod
