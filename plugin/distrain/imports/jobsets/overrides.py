"""Apply a TrainJob's own fields to the pods of its runtime: patches, image, command, variables, resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from distrain.imports.jobs.resources import gpus_of
from distrain.imports.jobsets.policies import carry_metadata
from distrain.imports.jobsets.replicated_jobs import METADATA_WHY, ReplicatedJob
from distrain.imports.launch import shell
from distrain.imports.ledger import Path, text
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation
from distrain.kube import quantities

TRAINER: Path = ("spec", "trainer")
# A runtime may contain several jobs. The Trainer sets the user's program only in the jobs whose step has this name.
STEP = "trainer"
IMAGE_WHY = "all pods have the image of spec.trainer"
KUEUE = "kueue.x-k8s.io/"
# The field that lists the patches has another name in each version of the API. An item's targetJobs names the jobs that
# it patches.
TARGETED = ("podTemplateOverrides", "podSpecOverrides")


class Role(Struct, frozen=True):
    """A replicated job of the runtime, and the role of the new job that is made from it.

    `path` is the path of this role. The role has a copy of the replicated job's pod template.
    """

    job: ReplicatedJob
    path: Path

    @property
    def template(self) -> Path:
        return (*self.path, "template")

    @property
    def container(self) -> Path:
        return (*self.template, "spec", "containers", 0)

    def words(self, translation: Translation) -> list[str]:
        """Return the words of the pods' command. If the command is a shell with a script, return the script's words."""
        found = [translation.get((*self.container, key)) for key in ("command", "args")]
        words = [str(word) for part in found if isinstance(part, list) for word in part]
        script = shell.script_of(words)
        return words if script is None else words[script].replace("\\\n", " ").split()

    def cpus(self, translation: Translation) -> int:
        """Return how many whole CPUs a pod requests, as the Trainer counts them; 0 if it requests GPUs or no CPUs."""
        resources = translation.get((*self.container, "resources")) or {}
        limits, requests = (resources.get(key) or {} for key in ("limits", "requests"))
        if [*gpus_of({**limits, **requests})]:
            return 0
        try:
            return -(-quantities.thousandths(requests.get("cpu") or limits.get("cpu") or 0) // 1000)
        except ValueError:
            return 0


class Patch(Struct, frozen=True):
    """A patch for pods: the replicated jobs that it applies to, and the paths of its metadata and its pod spec."""

    jobs: tuple[str, ...]
    metadata: Path | None
    spec: Path


def carry_patches(translation: Translation, roles: Sequence[Role]) -> None:
    """Apply the patches of a TrainJob to the pods, whichever version of the API the TrainJob has."""
    for patch in [*_runtime_patches(translation), *_targeted(translation)]:
        for role in roles:
            if role.job.name in patch.jobs:
                if patch.metadata:
                    for key in ("labels", "annotations"):
                        translation.patch((*role.template, "metadata", key), (*patch.metadata, key))
                for key in translation.block(patch.spec):
                    if key != "targetJobs":
                        translation.patch((*role.template, "spec", key), (*patch.spec, key))
        for path in (patch.metadata, patch.spec):
            if path:
                translation.lose(path, f"the training has no pods of a job {', '.join(map(quoting.key, patch.jobs))}")


def _runtime_patches(translation: Translation) -> Iterator[Patch]:
    base: Path = ("spec", "runtimePatches")
    for index, patch in enumerate(translation.blocks(base)):
        if str(patch.get("manager")).startswith(KUEUE):
            translation.lose((*base, index), "Kueue sets it when it admits the job")
            continue
        template = (*base, index, "trainingRuntimeSpec", "template")
        translation.know((*base, index, "manager"), (*base, index, "time"))
        carry_metadata(translation, (*template, "metadata"))
        jobs = (*template, "spec", "replicatedJobs")
        for number, job in enumerate(translation.blocks(jobs)):
            translation.know((*jobs, number, "name"))
            translation.lose((*jobs, number, "template", "metadata"), METADATA_WHY)
            pod = (*jobs, number, "template", "spec", "template")
            yield Patch((str(job.get("name")),), (*pod, "metadata"), (*pod, "spec"))


def _targeted(translation: Translation) -> Iterator[Patch]:
    for field in TARGETED:
        for index, _ in enumerate(translation.blocks(("spec", field))):
            path = ("spec", field, index)
            names = tuple(str(each.get("name")) for each in translation.blocks((*path, "targetJobs")))
            translation.know((*path, "targetJobs"))
            is_template = field == TARGETED[0]
            yield Patch(names, (*path, "metadata"), (*path, "spec")) if is_template else Patch(names, None, path)


def carry_trainer(translation: Translation, roles: Sequence[Role], *, is_launcher_node: bool) -> None:
    """Apply spec.trainer to the pods.

    The job that trains gets the image, the command, the variables and the resources. If the launcher is one of the
    nodes, all roles get the variables and resources.
    """
    translation.block(TRAINER)
    worker, launcher = roles[0], roles[-1]
    trainers = [role for role in roles if role.job.step == STEP] or [launcher]
    for role in roles:
        for key in ("image", "command", "args") if role in trainers else ():
            translation.copy((*role.container, key), (*TRAINER, key))
        if role in trainers or is_launcher_node:
            translation.patch((*role.container, "env"), (*TRAINER, "env"))
            translation.patch((*role.container, "resources"), (*TRAINER, "resourcesPerNode"))
    if worker is not launcher:
        _beside_launcher(translation, worker, launcher, is_launcher_node=is_launcher_node)
    translation.know((*TRAINER, "resourcesPerNode"), (*TRAINER, "env"))


def _beside_launcher(translation: Translation, worker: Role, launcher: Role, *, is_launcher_node: bool) -> None:
    """Remove the program from the workers, and the resources of a node from the launcher."""
    _one_image(translation, worker)
    if is_launcher_node:
        translation.drop((*launcher.container, "resources"))
    if worker.job is launcher.job:
        for key in ("command", "args"):
            translation.drop((*worker.container, key))


def _one_image(translation: Translation, worker: Role) -> None:
    """Set the image of spec.trainer in the workers, too; the Trainer sets it only in the launcher.

    The chart has one image for both.
    """
    image, theirs = (*TRAINER, "image"), (*worker.job.container, "image")
    given, before = translation.source.get(image), translation.source.get(theirs)
    if given is None:
        return
    translation.copy((*worker.container, "image"), image)
    if before not in (None, given):
        translation.lost.append((text(theirs), IMAGE_WHY))
