"""Read a JobSet (jobset.x-k8s.io/v1alpha2): its replicated jobs become the roles of a PyTorchJob or an MPIJob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.jobsets.initializers import carry_initializers
from distrain.imports.jobsets.policies import carry_claims, carry_metadata, carry_policies, note_labels
from distrain.imports.jobsets.replicated_jobs import (
    MPI_PROGRAMS,
    ReplicatedJob,
    count_pods,
    put_pods,
    read_jobs,
    runs,
    settle_job,
    words_of,
)
from distrain.imports.ledger import Path, text
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation
from distrain.workload.kinds import KUBEFLOW

SPEC: Path = ("spec",)
TORCH = {"torchrun", "torch.distributed.run", "torch.distributed.launch"}
RAN_ONCE = "the pods ran their command once each, and started no ranks with torchrun; here each rank runs it"


def read_jobset(data: dict[str, Any], origin: str) -> Draft:
    """Convert a JobSet to values of the chart. Raise ValuesError if it is unclear which job of the JobSet trains."""
    translation = Translation(data, origin)
    translation.know(("apiVersion",), ("kind",), ("status",))
    for key in translation.block(("metadata",)):
        if key not in ("labels", "annotations"):
            translation.copy(("metadata", key), ("metadata", key))
    carry_metadata(translation, ("metadata",))
    jobs = read_jobs(translation, SPEC)
    launchers, workers = choose_roles(translation, jobs)
    begin(translation, "MPIJob" if launchers else "PyTorchJob")
    roles = put_roles(translation, launchers, workers)
    pod = (*roles[workers[-1].name], "template", "spec")
    carry_initializers(translation, pod, jobs, (*launchers, *workers))
    carry_claims(translation, SPEC, pod)
    names = [job.name for job in jobs]
    carry_policies(translation, SPEC, (*launchers, *workers)[0], [*roles])
    for job in (*launchers, *workers):
        settle_job(translation, job, names)
    for key in ("suspend", "managedBy"):
        translation.copy((*SPEC, key), (*SPEC, key))
    note_labels(translation, [(*path, "template", "spec") for path in roles.values()])
    return translation.draft()


def choose_roles(
    translation: Translation, jobs: Sequence[ReplicatedJob]
) -> tuple[list[ReplicatedJob], list[ReplicatedJob]]:
    """Return the job that runs mpirun, if any, and the jobs that train: one job, or a leader and its workers."""
    words = {job.name: words_of(translation, job) for job in jobs}
    before = {name for job in jobs for name in _completed(translation, job)}
    training = [job for job in jobs if job.name not in before]
    launchers = [job for job in training if runs(words[job.name], MPI_PROGRAMS)]
    if launchers:
        training = [job for job in training if job is not launchers[0]] or launchers
        training = [job for job in training if runs(words[job.name], {"sshd"})] or training
    else:
        training = [job for job in training if runs(words[job.name], TORCH)] or training
    most = 1 if launchers else 2
    is_told = len(training) == 1 or all(runs(words[job.name], TORCH) for job in training)
    if len(launchers) > 1 or not is_told or not 0 < len(training) <= most:
        names = ", ".join(quoting.key(job.name) for job in jobs)
        finding = "and it is unclear from their commands (torchrun, mpirun, sshd) which of them train"
        raise translation.refuse(jobs[0].path[:-1], f"has {names}, {finding}; keep only those that train")
    return launchers, training


def _completed(translation: Translation, job: ReplicatedJob) -> list[str]:
    """Return the names of the jobs that have to be complete before this one."""
    waits = translation.blocks((*job.path, "dependsOn"))
    return [str(each.get("name")) for each in waits if each.get("status") == "Complete"]


def begin(translation: Translation, kind: str) -> None:
    """Set apiVersion and kind of the new job; use the newest API version that this kind has."""
    translation.job.update(apiVersion=KUBEFLOW[kind].versions[0].api_version, kind=kind)


def put_roles(
    translation: Translation, launchers: Sequence[ReplicatedJob], workers: Sequence[ReplicatedJob]
) -> dict[str, Path]:
    """Copy the pod template of each replicated job to a role of the new job.

    Return a map from the names of the replicated jobs to the paths of their roles.
    """
    kind = translation.job["kind"]
    base = (*SPEC, KUBEFLOW[kind].replicas)
    names = ("Worker",) if kind == "MPIJob" or len(workers) == 1 else ("Master", "Worker")
    found = dict(zip((job.name for job in workers), ((*base, name) for name in names), strict=True))
    for job in workers:
        number, paths = count_pods(translation, job)
        put_pods(translation, found[job.name], job)
        translation.set((*found[job.name], "replicas"), number, *paths)
    for job in launchers:
        role = (*base, "Launcher")
        put_pods(translation, role, job)
        if job in workers:
            for key in ("command", "args"):
                translation.drop((*found[job.name], "template", "spec", "containers", 0, key))
        found.setdefault(job.name, role)
        translation.set((*role, "replicas"), 1)
    if kind == "PyTorchJob":
        _note_single_commands(translation, workers)
    return found


def _note_single_commands(translation: Translation, workers: Sequence[ReplicatedJob]) -> None:
    for job in workers:
        words = words_of(translation, job)
        if words and not runs(words, TORCH):
            translation.notes.append(f"{text(job.container)}: {RAN_ONCE}")
