"""Read the replicated jobs of a JobSet: which of them trains, which starts the ranks, and which prepares the data.

The fields are those of jobset v0.12.0 (api/jobset/v1alpha2/jobset_types.go) and of Kubernetes' Job (batch/v1).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from distrain.imports.launch import shell
from distrain.imports.launch.known_options import MPI
from distrain.imports.launch.starters import PROGRAMS
from distrain.imports.ledger import Path
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation

STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
# The Trainer runs the program in the container of this name: pkg/constants/constants.go of kubeflow/trainer v2.3.0.
NODE = "node"
MPI_PROGRAMS = {name for name, starter in PROGRAMS.items() if starter == MPI}
JOB_WHY = "the chart makes no Job of its own for these pods"
METADATA_WHY = (
    "it is of the Job between JobSet and pods, which the chart does not make; use podLabels or podAnnotations"
)
TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
TOPOLOGY_WHY = "JobSet kept other Jobs off these nodes; set workers.topology or affinity"


class ReplicatedJob(Struct, frozen=True):
    """A replicated job: its name, its path in the source, and the index of its main container.

    `step` is the step of a TrainJob that the replicated job runs, such as trainer.
    """

    name: str
    path: Path
    step: str
    main: int

    @property
    def spec(self) -> Path:
        """The path of the spec of the Job that JobSet creates for this replicated job."""
        return (*self.path, "template", "spec")

    @property
    def pod(self) -> Path:
        """The path of the pod template in the spec of the Job."""
        return (*self.spec, "template")

    @property
    def container(self) -> Path:
        return (*self.pod, "spec", "containers", self.main)


def read_jobs(translation: Translation, spec: Path) -> list[ReplicatedJob]:
    """Return the replicated jobs of a JobSet's spec at this path; raise ValuesError if one has no container."""
    path = (*spec, "replicatedJobs")
    if not translation.blocks(path):
        raise translation.refuse(path, "is missing, so the job has no pods; add it there")
    found = [_read(translation, (*path, index)) for index, _ in enumerate(translation.blocks(path))]
    names = [job.name for job in found]
    for job in found:
        if names.count(job.name) > 1:
            raise translation.refuse(
                (*job.path, "name"), f"is {quoting.key(job.name)}, the name of another job too; give each its own name"
            )
    return found


def _read(translation: Translation, path: Path) -> ReplicatedJob:
    labels = translation.block((*path, "template", "metadata", "labels"))
    containers = (*path, "template", "spec", "template", "spec", "containers")
    names = [each.get("name") for each in translation.blocks(containers)]
    if not names:
        raise translation.refuse(containers, "has no container; write one there")
    main = names.index(NODE) if NODE in names else 0
    name = str(translation.source.get((*path, "name"), ""))
    return ReplicatedJob(name, path, str(labels.get(STEP_LABEL, "")), main)


def count_pods(translation: Translation, job: ReplicatedJob) -> tuple[int, tuple[Path, ...]]:
    """Return the number of a job's pods, and the paths in the source that set this number."""
    replicas, parallelism = (*job.path, "replicas"), (*job.spec, "parallelism")
    number = translation.number(replicas, 1) * translation.number(parallelism, 1)
    given = [path for path in (parallelism, replicas) if translation.source.get(path) is not None]
    return number, (*given,) or (replicas,)


def words_of(translation: Translation, job: ReplicatedJob) -> list[str]:
    """Return the words of the main container's command; for a script, also the words of its first lines."""
    found = [translation.source.get((*job.container, key)) for key in ("command", "args")]
    words = [str(word) for part in found if isinstance(part, list) for word in part]
    script = shell.script_of(words)
    return words if script is None else words[script].replace("\\\n", " ").split()


def runs(words: Sequence[str], programs: set[str]) -> bool:
    return any(PurePosixPath(word).name in programs for word in words)


def put_pods(translation: Translation, target: Path, job: ReplicatedJob) -> None:
    """Copy a job's pod template to a role at this path of the new job, with the main container first in the list."""
    template = (*target, "template")
    translation.copy((*template, "metadata"), (*job.pod, "metadata"))
    for key in translation.block((*job.pod, "spec")):
        if key != "containers":
            translation.copy((*template, "spec", key), (*job.pod, "spec", key))
    translation.set((*template, "spec", "containers"), [])
    containers = [index for index, _ in enumerate(translation.blocks((*job.pod, "spec", "containers")))]
    for place, index in enumerate(sorted(containers, key=lambda index: index != job.main)):
        translation.copy((*template, "spec", "containers", place), (*job.pod, "spec", "containers", index))


def settle_job(translation: Translation, job: ReplicatedJob, others: Sequence[str] = ()) -> None:
    """Mark the fields of a replicated job and of its Job as handled, or list them as left out, except the pods' fields.

    The job waits for the jobs `others`.
    """
    source, spec = translation.source, job.spec
    translation.know(*((*job.path, key) for key in ("name", "replicas")), (*spec, "parallelism"))
    translation.know((*job.path, "template", "metadata", "labels", STEP_LABEL))
    if source.get((*job.path, "groupName"), "default") == "default":
        translation.know((*job.path, "groupName"))
    translation.lose((*job.path, "groupName"), "JobSet alone reads it, for a label of the pods; set podLabels")
    if not source.get((*spec, "suspend")):
        translation.know((*spec, "suspend"))
    translation.lose((*spec, "suspend"), "JobSet itself resumed the Job; job.suspend holds back the run")
    for index, each in enumerate(translation.blocks((*job.path, "dependsOn"))):
        if each.get("name") in others:
            translation.know((*job.path, "dependsOn", index))
    translation.lose((*job.path, "dependsOn"), "the ranks find each other, and the pods start in any order")
    if source.get((*spec, "completionMode"), "Indexed") == "Indexed":
        translation.know((*spec, "completionMode"))
    if source.get((*spec, "completions"), 1) == source.get((*spec, "parallelism"), 1):
        translation.know((*spec, "completions"))
    translation.lose((*spec, "completions"), "as many pods run as spec.parallelism says, and each is a worker")
    if source.get((*spec, "backoffLimit")) == 0:
        # A Job with a backoffLimit of 0 never retries, so the JobSet handles the restarts.
        translation.know((*spec, "backoffLimit"))
    annotations = (*job.path, "template", "metadata", "annotations", TOPOLOGY)
    translation.lose(annotations, TOPOLOGY_WHY)
    translation.lose((*job.path, "template", "metadata"), METADATA_WHY)
    translation.lose(spec, JOB_WHY)
