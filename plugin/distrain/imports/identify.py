"""Find out from a file's content what the file describes, and choose the job if the file has several objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from distrain.errors import ValuesError
from distrain.imports import arena_flags, ffdl, horovod_chart, ksonnet
from distrain.imports.credentials import hidden
from distrain.imports.jobsets.runtime import GROUP, RUNTIME, RUNTIMES, VERSION, runtime_of
from distrain.imports.ledger import Ledger
from distrain.imports.secrets import quoting
from distrain.imports.slurm import batch_script
from distrain.workload.kinds import KUBEFLOW, VERSIONS
from distrain.yaml import repeated_keys, yaml_loader

TAKEN = "MPIJob, PyTorchJob, TFJob, MXJob or TrainJob"
# Kinds of job resources that distrain's chart does not render, but that the import reads.
TRAINJOB, JOBSET, MPIJOB = (
    (VERSION, "TrainJob"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    (f"{KUBEFLOW['MPIJob'].group}/v1alpha1", "MPIJob"),
)
# A larger object cannot be stored: etcd accepts requests of at most 1.5 MiB by default.
MOST = 3 * 2**19
# A script that is longer than this is refused: the import compares every command of a script with every other command,
# so a long script would take too long.
LONGEST_SCRIPT, MOST_LINES = 2**16, 2000
TYPES = (*VERSIONS, TRAINJOB, JOBSET, MPIJOB)
JOB, FFDL, KSONNET = "job", "FfDL manifest", "ksonnet parameters of openmpi"
HOROVOD, SLURM = "values of the chart stable/horovod", "batch script of Slurm"
ARENA = "command line of arena"
ALL = f"a job of the Kubeflow operators ({TAKEN}), a JobSet, an {FFDL}, {KSONNET}, {HOROVOD}, a {SLURM}, or a {ARENA}"
# Kinds of objects that people keep in the same file as a job, and what happens to these objects.
BESIDE = {
    "Secret": "it is not in the values; keep it in the cluster",
    "ConfigMap": "it is not in the values; keep it in the cluster if the job mounts it",
    "PersistentVolumeClaim": "it is not in the values; keep it in the cluster if the job mounts it",
    "PersistentVolume": "it is not in the values; keep it in the cluster",
    "Service": "the operator, or for job.kind Plain the chart, makes the Services of the job",
    "ServiceAccount": "serviceAccountName names it; keep it in the cluster",
    "Role": "the chart makes what its pods need",
    "RoleBinding": "the chart makes what its pods need",
    "Namespace": "helm's flag --namespace names it",
}


class Found(Struct, frozen=True):
    """The job to import, its format, and the other objects of the file.

    `others` has the name of each other object, and what the import does with it.
    """

    job: dict[str, Any]
    others: tuple[tuple[str, str], ...] = ()
    format: str = JOB

    @property
    def words(self) -> str:
        """Return a description of the file for the user."""
        if self.format != JOB:
            return self.format
        return f"{_name(self.job)} ({self.job['apiVersion']})"


def text_of(content: bytes, origin: str) -> str:
    """Return a file's text; raise ValuesError if the file is empty or is not text."""
    if b"\0" in content:
        raise ValuesError(f"{origin}: is no text (byte {content.index(0)} is 0); name the YAML file of a job")
    if len(content) > MOST:
        raise ValuesError(f"{origin}: has {len(content):,} bytes, above the limit of {MOST:,}; keep only the job in it")
    try:
        # In a shell script, a backslash before \r would continue no line.
        found = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValuesError(f"{origin}: byte {error.start} is no UTF-8; save it as plain text") from error
    if not found.strip():
        raise ValuesError(f"{origin}: is empty; name the YAML file of a job")
    return found


def find_job(text: str, origin: str) -> Found:
    """Return what a file describes, judged by its content.

    Raise ValuesError if the file describes no run, or several runs.
    """
    if batch_script.is_batch_script(text):
        _refuse_long(text, origin)
        return Found(batch_script.options_of(text, origin), (), SLURM)
    if arena_flags.is_arena(text):
        _refuse_long(text, origin)
        data, more = arena_flags.flags_of(text, origin)
        return Found(data, tuple(more), ARENA)
    if ksonnet.is_ksonnet(text):
        _refuse_long(text, origin)
        data, more = ksonnet.parameters(text, origin)
        return Found(data, tuple(more), KSONNET)
    try:
        documents = [each for each in yaml_loader.load_all(text) if each is not None]
    except yaml_loader.NotYamlError as error:
        raise ValuesError(f"{origin}: {error}{_about_templates(text)}") from error
    if repeated := repeated_keys.mistakes(text):
        # For a repeated key, kubectl and Helm silently use the last value, so the import refuses it.
        raise ValuesError(*(f"{origin}: {hidden(mistake)}" for mistake in repeated))
    items = [item for document in documents for item in _unpacked(document)]
    wrong = [item for item in items if not isinstance(item, dict)]
    if wrong or not items:
        raise ValuesError(f"{origin}: contains no YAML mapping; {_about_scripts(text)}")
    for known, is_known in ((FFDL, ffdl.is_manifest), (HOROVOD, horovod_chart.is_values)):
        if len(items) == 1 and is_known(items[0]):
            return Found(items[0], (), known)
    jobs = [item for item in items if type_of(item) in TYPES]
    _refuse_none(items, jobs, origin)
    if len(jobs) > 1:
        names = ", ".join(map(_name, jobs))
        raise ValuesError(
            f"{origin}: has {len(jobs)} jobs, {names}; a run is one job: import each from a file of its own"
        )
    [job] = jobs
    runtime = runtime_of(job, items, origin) if type_of(job) == TRAINJOB else None
    others = tuple((_name(item), _becomes(item)) for item in items if item is not job and item is not runtime)
    return with_runtime(job, runtime, others) if type_of(job) == TRAINJOB else Found(job, others)


def _refuse_long(text: str, origin: str) -> None:
    size, lines = len(text), text.count("\n")
    if size > LONGEST_SCRIPT or lines > MOST_LINES:
        limits = f"the limits are {LONGEST_SCRIPT:,} and {MOST_LINES:,}"
        found = f"has {size:,} characters in {lines:,} lines, but {limits}"
        raise ValuesError(f"{origin}: {found}; keep only the lines that start the run")


def with_runtime(
    job: dict[str, Any], runtime: dict[str, Any] | None, others: tuple[tuple[str, str], ...] = ()
) -> Found:
    """Return a TrainJob, together with its runtime if the runtime is known."""
    if RUNTIME in job:
        others = (*others, (RUNTIME, "it is no field of a TrainJob"))
    fields = {key: value for key, value in job.items() if key != RUNTIME}
    return Found({**fields, RUNTIME: runtime} if runtime is not None else fields, others)


def _about_scripts(text: str) -> str:
    """Tell the user what to do about a text that is not a job: name another file, or make the script readable."""
    if re.search(r"^#SBATCH\b", text, re.MULTILINE):
        return "its #SBATCH lines are read if its first line names a shell, such as #!/bin/bash: add that line"
    if re.match(r"#!|.*\b(sbatch|srun|qsub|bsub|mpirun|mpiexec|horovodrun|torchrun|bash)\b", text):
        return f"of scripts, only those with #! in the first line and with #SBATCH lines can be imported; give {ALL}"
    return f"give {ALL}"


def _about_templates(text: str) -> str:
    return " (it is a template; render it first, as with helm template, and import the result)" if "{{" in text else ""


def _unpacked(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document:
        yield from document["items"] if isinstance(document["items"], list) else ()
    else:
        yield document


def type_of(item: dict[str, Any]) -> tuple[str, str]:
    return str(item.get("apiVersion")), str(item.get("kind"))


def _name(item: dict[str, Any]) -> str:
    name = Ledger(item).get(("metadata", "name"), "without a name")
    return f"{quoting.key(item.get('kind') or 'an object without a kind')} {quoting.key(name)}"


def _becomes(item: dict[str, Any]) -> str:
    return BESIDE.get(str(item.get("kind")), "the chart makes no such object; apply it as before")


def _refuse_none(items: list[dict[str, Any]], jobs: list[dict[str, Any]], origin: str) -> None:
    """If the import can read none of the objects, raise a ValuesError that says what was found."""
    if jobs:
        return
    for item in items:
        version, kind = type_of(item)
        if kind in RUNTIMES and version.startswith(f"{GROUP}/"):
            raise ValuesError(
                f"{origin}: kind: {kind} runs nothing by itself; add a TrainJob that refers to it, in the same file"
            )
        known = ", ".join(known for known, name in TYPES if name == kind)
        if known and item.get("apiVersion") is None:
            raise ValuesError(f"{origin}: apiVersion: is missing, and the import reads {kind} {known}; add it")
        if known:
            raise ValuesError(
                f"{origin}: apiVersion: is {quoting.value(version)}, and the import reads {kind} {known}; "
                f"convert it first"
            )
    kinds = ", ".join(dict.fromkeys(quoting.key(item.get("kind") or "no kind") for item in items))
    raise ValuesError(f"{origin}: kind: found {kinds}; give {ALL}")
