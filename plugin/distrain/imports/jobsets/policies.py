"""Convert the spec of a JobSet, except its pods: restarts, deadline, success policy and volume claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distrain.imports.jobsets.replicated_jobs import TOPOLOGY, TOPOLOGY_WHY, ReplicatedJob
from distrain.imports.ledger import Ledger, Path
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation
from distrain.workload.kinds import KUBEFLOW

SPEC: Path = ("spec",)
CLAIMS = (
    "the JobSet made one claim for all pods; here each worker gets its own, which its initContainers fill, and which "
    "is deleted with the pod: keep results in output.uri, or in a claim that you make"
)
# Prefixes of the labels and annotations that JobSet and Kubernetes' Job controller set in their pods.
OWNERS = ("jobset.sigs.k8s.io/", "batch.kubernetes.io/")


def carry_policies(translation: Translation, path: Path, main: ReplicatedJob, names: Sequence[str]) -> None:
    """Convert a JobSet's spec at this path; `names` are the replicated jobs that became workers and launcher."""
    source = translation.source
    translation.copy((*SPEC, "ttlSecondsAfterFinished"), (*path, "ttlSecondsAfterFinished"))
    _restarts(translation, path, main)
    deadline = (*main.spec, "activeDeadlineSeconds")
    if translation.get((*SPEC, "activeDeadlineSeconds")) is None:
        translation.copy((*SPEC, "activeDeadlineSeconds"), deadline)
    targets = source.get((*path, "successPolicy", "targetReplicatedJobs")) or names
    is_all = translation.block((*path, "successPolicy")).get("operator", "All") == "All"
    if is_all and isinstance(targets, list | tuple) and set(map(str, targets)) <= {*names}:
        translation.know((*path, "successPolicy"))
    translation.lose((*path, "successPolicy"), "the run succeeds when all its ranks have")
    if source.get((*path, "startupPolicy", "startupPolicyOrder")) == "AnyOrder":
        translation.know((*path, "startupPolicy"))
    translation.lose((*path, "startupPolicy"), "the ranks find each other, and the pods start in any order")
    for key in ("enableDNSHostnames", "publishNotReadyAddresses"):
        if source.get((*path, "network", key)) is True:
            translation.know((*path, "network", key))
    translation.lose((*path, "network"), "the operator, or for job.kind Plain the chart, makes the Service")
    translation.lose((*path, "coordinator"), "the ranks find rank 0 by the variables that the operator sets")


def _restarts(translation: Translation, path: Path, main: ReplicatedJob) -> None:
    """Convert the number of restarts of the JobSet, or of the Job that trains."""
    failure, retries = (*path, "failurePolicy"), (*main.spec, "backoffLimit")
    limit = (*failure, "maxRestarts")
    translation.copy((*SPEC, "backoffLimit"), limit if translation.source.get(limit) is not None else retries)
    translation.lose(failure, "distrain restarts all ranks whatever failed, job.maxRestarts times")
    if translation.source.get(retries) == 0:
        translation.know(retries)
    translation.lose(retries, "the JobSet's failurePolicy says job.maxRestarts")


def carry_claims(translation: Translation, path: Path, pod: Path) -> None:
    """Turn the volume claims that JobSet creates for its pods into volumes of each worker.

    `path` is the path of the JobSet's spec, `pod` the path of the workers' pod in the new job.
    """
    names = {
        mount.get("name")
        for key in ("containers", "initContainers")
        for container in translation.get((*pod, key)) or []
        for mount in container.get("volumeMounts") or []
    }
    for index, _ in enumerate(translation.blocks((*path, "volumeClaimPolicies"))):
        policy = (*path, "volumeClaimPolicies", index)
        for number, _ in enumerate(translation.blocks((*policy, "templates"))):
            _claim(translation, pod, (*policy, "templates", number), names)
        translation.lose((*policy, "retentionPolicy"), "a worker's claim is deleted with its pod")


def _claim(translation: Translation, pod: Path, path: Path, mounted: set[str | None]) -> None:
    name = translation.source.get((*path, "metadata", "name"))
    if name not in mounted:
        translation.lose(path, "no container of the workers mounts it")
        return
    template = {"spec": translation.block((*path, "spec"))}
    volume = {"name": name, "ephemeral": {"volumeClaimTemplate": template}}
    translation.append((*pod, "volumes"), volume, (*path, "spec"))
    translation.know((*path, "metadata", "name"))
    translation.notes.append(CLAIMS)


def note_labels(translation: Translation, pods: Iterable[Path]) -> None:
    """Add a note for each variable whose value is a label or annotation that only JobSet or the Job controller sets."""
    own = KUBEFLOW[translation.job["kind"]].versions[0].environment
    for pod in pods:
        for key in ("containers", "initContainers"):
            for container in translation.get((*pod, key)) or []:
                for entry in container.get("env") or []:
                    field = str(Ledger(entry).get(("valueFrom", "fieldRef", "fieldPath"), ""))
                    # If the operator sets a variable of this name itself, the chart refuses the entry. The list of
                    # left-out values already says so, so no note is needed.
                    if any(owner in field for owner in OWNERS) and entry.get("name") not in own:
                        name = f"{quoting.key(container.get('name'))}: variable {quoting.key(entry.get('name'))}"
                        translation.notes.append(
                            f"{name} reads {quoting.value(field)}, which no pod has here; write its value in env"
                        )


def lose_owned(translation: Translation, path: Path) -> None:
    """If only JobSet reads a label or an annotation at this path, list it as left out."""
    translation.lose((*path, "annotations", TOPOLOGY), TOPOLOGY_WHY)
    for key in ("labels", "annotations"):
        for name in translation.block((*path, key)):
            if "jobset.sigs.k8s.io/" in str(name):
                translation.lose((*path, key, name), "JobSet alone reads it, and the chart makes none")


def carry_metadata(translation: Translation, *paths: Path) -> None:
    """Copy the labels and annotations at these paths to the new job.

    If a name occurs twice, use the later path's value.
    """
    for path in paths:
        lose_owned(translation, path)
        for key in ("labels", "annotations"):
            for name in translation.block((*path, key)):
                if not translation.source.is_settled((*path, key, name)):
                    translation.copy(("metadata", key, name), (*path, key, name))
