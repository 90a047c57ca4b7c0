"""Turn the Jobs that prepare data or a model before the training into initContainers of the workers, if possible."""

from __future__ import annotations

from collections.abc import Sequence

from distrain.imports.jobsets.replicated_jobs import ReplicatedJob, count_pods, settle_job
from distrain.imports.ledger import Path, text
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation

# Fields that Kubernetes refuses in an init container, unless its restartPolicy is Always.
NOT_INITIAL = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
POD_WHY = "an initContainer has it from the workers' pods"
STORAGE_URI = "STORAGE_URI"


def carry_initializers(
    translation: Translation, pod: Path, jobs: Sequence[ReplicatedJob], training: Sequence[ReplicatedJob]
) -> None:
    """Turn replicated jobs that do not train into initContainers of the workers, or list these jobs as left out.

    `pod` is the path of the workers' pod in the new job.
    """
    first = {
        each.get("name")
        for job in jobs
        for each in translation.blocks((*job.path, "dependsOn"))
        if each.get("status") == "Complete"
    }
    for job in jobs:
        if job in training:
            continue
        if why := _obstacle(translation, pod, job, is_first=job.name in first):
            translation.lose(job.path, why)
        else:
            _carry(translation, pod, job, jobs)


def _obstacle(translation: Translation, pod: Path, job: ReplicatedJob, *, is_first: bool) -> str:
    """Return why a job cannot be an initContainer; an empty string if it can."""
    source, spec = translation.source, (*job.pod, "spec")
    if not is_first and not job.step.endswith("-initializer"):
        return "it runs beside the training, and the chart has no pods but those of the ranks"
    if count_pods(translation, job)[0] > 1:
        return "it has several pods, and an initContainer runs in each worker; run it before"
    account = source.get((*spec, "serviceAccountName"))
    if account and account != translation.get((*pod, "serviceAccountName")):
        return f"it needs the ServiceAccount {quoting.key(account)}, and a worker has another; run it before"
    volumes = {each.get("name"): each for each in translation.get((*pod, "volumes")) or []}
    for each in translation.blocks((*spec, "volumes")):
        if volumes.get(each.get("name"), each) != each:
            return f"its volume {quoting.key(each.get('name'))} is another one than that of the workers; run it before"
    return ""


def _carry(translation: Translation, pod: Path, job: ReplicatedJob, jobs: Sequence[ReplicatedJob]) -> None:
    spec = (*job.pod, "spec")
    translation.patch((*pod, "volumes"), (*spec, "volumes"))
    for key in ("initContainers", "containers"):
        for index, _ in enumerate(translation.blocks((*spec, key))):
            _append(translation, pod, (*spec, key, index))
    translation.know((*spec, "serviceAccountName"))
    if translation.source.get((*spec, "restartPolicy")) == "Never":
        translation.know((*spec, "restartPolicy"))
    for key in ("metadata", "spec"):
        translation.lose((*job.pod, key), POD_WHY)
    settle_job(translation, job, [each.name for each in jobs])
    translation.notes.append(
        f"{text(job.path)}: {quoting.key(job.name)} ran once, before the ranks; here it is an "
        f"initContainer, and runs in each worker"
    )


def _append(translation: Translation, pod: Path, container: Path) -> None:
    for key in NOT_INITIAL:
        translation.lose((*container, key), "an initContainer has none")
    place = translation.append((*pod, "initContainers"), {}, container)
    for key in translation.block(container):
        if key not in NOT_INITIAL:
            translation.copy((*place, key), (*container, key))


def carry_initializer_fields(translation: Translation, pod: Path, jobs: Sequence[ReplicatedJob]) -> None:
    """Set the fields of a TrainJob's spec.initializer in the initContainers that fetch the data set and the model."""
    steps = {job.step: job for job in jobs}
    for field in ("dataset", "model"):
        path, step = ("spec", "initializer", field), f"{field}-initializer"
        names = [each.get("name") for each in translation.get((*pod, "initContainers")) or []]
        if step in steps and step in names:
            _fields(translation, (*pod, "initContainers", names.index(step)), path)
        translation.lose(path, f"the runtime has no {step} here that it could configure; fetch the data before")


def _fields(translation: Translation, container: Path, path: Path) -> None:
    """Set a container's variables as the Trainer sets them.

    The Trainer's code is in pkg/runtime/framework/plugins/jobset/builder.go, v2.3.0.
    """
    uri, secret = (*path, "storageUri"), (*path, "secretRef", "name")
    if translation.source.get(uri) is not None:
        _variable(translation, container, {"name": STORAGE_URI, "value": translation.source.get(uri)}, uri)
    translation.patch((*container, "env"), (*path, "env"))
    if name := translation.source.get(secret):
        translation.append((*container, "envFrom"), {"secretRef": {"name": name}}, secret)


def _variable(translation: Translation, container: Path, entry: dict[str, str], source: Path) -> None:
    names = [each.get("name") for each in translation.get((*container, "env")) or []]
    if entry["name"] in names:
        translation.set((*container, "env", names.index(entry["name"])), entry, source)
    else:
        translation.append((*container, "env"), entry, source)
