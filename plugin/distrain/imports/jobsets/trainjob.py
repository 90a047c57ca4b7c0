"""Read a TrainJob of Kubeflow Trainer (trainer.kubeflow.org/v1alpha1) with the runtime that it names.

The fields are those of kubeflow/trainer v2.3.0 (pkg/apis/trainer/v1alpha1). The field podTemplateOverrides is that of
v2.1; podSpecOverrides, labels and annotations are those of v2.0. The precedence is that of pkg/runtime of v2.3.0:
patches override the runtime's template, and spec.trainer overrides both.
"""

from __future__ import annotations

from typing import Any

from distrain.imports.draft import Draft
from distrain.imports.jobs.run_policy import NO_VALUE
from distrain.imports.jobsets.initializers import carry_initializer_fields, carry_initializers
from distrain.imports.jobsets.jobset import RAN_ONCE, TORCH, begin
from distrain.imports.jobsets.overrides import STEP, Role, carry_patches, carry_trainer
from distrain.imports.jobsets.policies import carry_claims, carry_metadata, carry_policies, note_labels
from distrain.imports.jobsets.replicated_jobs import (
    NODE,
    STEP_LABEL,
    ReplicatedJob,
    put_pods,
    read_jobs,
    runs,
    settle_job,
)
from distrain.imports.jobsets.runtime import RUNTIME, missing_words, refuse_reference, stand_in
from distrain.imports.ledger import Path, text
from distrain.imports.secrets import quoting
from distrain.imports.translation import Translation
from distrain.values.placeholder import IMAGE
from distrain.workload.kinds import KUBEFLOW

SPEC: Path = ("spec",)
POLICY: Path = (RUNTIME, "spec", "mlPolicy")
TEMPLATE: Path = (RUNTIME, "spec", "template")
NODES: Path = ("spec", "trainer", "numNodes")
PROCESSES: Path = ("spec", "trainer", "numProcPerNode")
KINDS = {"torch": "PyTorchJob", "mpi": "MPIJob"}
LAUNCHER = "launcher"
TUNE = "command: tune run starts ranks itself if it has options of torchrun; remove them, as here each rank runs it"
# For each key of podGroupPolicy, the gang scheduler's usual name in a pod's schedulerName.
GANGS = {"volcano": ("volcano", "volcano"), "coscheduling": ("scheduler-plugins", "scheduler-plugins-scheduler")}
FRAMEWORK_LABEL, TORCH_FRAMEWORKS = "trainer.kubeflow.org/framework", ("torch", "deepspeed", "torchtune")
QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"


def read_trainjob(data: dict[str, Any], origin: str) -> Draft:
    """Convert a TrainJob to values of the chart.

    If its runtime is known, `data` has the runtime under the key RUNTIME.
    """
    refuse_reference(data, origin)
    translation = _translation(data, origin)
    policy = _policy(translation)
    jobs = read_jobs(translation, (*TEMPLATE, "spec"))
    begin(translation, KINDS[policy])
    workers, launcher = _jobs_of(translation, jobs, policy)
    _metadata(translation)
    _framework(translation, policy)
    roles = [_put(translation, "Worker" if launcher else "Master", workers)]
    roles += [_put(translation, "Launcher", launcher)] if launcher else []
    if RUNTIME not in data:
        for role in roles:
            translation.set((*role.container, "image"), IMAGE, ("spec", "runtimeRef"))
    _settings(translation, policy, roles)
    _size(translation, policy, roles)
    _template(translation, jobs, roles)
    return translation.draft()


def _translation(data: dict[str, Any], origin: str) -> Translation:
    """Begin the translation of a TrainJob. If its runtime is not known, use a substitute for the runtime."""
    translation = Translation(data if RUNTIME in data else {**data, RUNTIME: stand_in(data)}, origin)
    if RUNTIME not in data:
        translation.notes.append(missing_words(data, translation.block(POLICY)))
        translation.know((RUNTIME,))
    translation.know(("apiVersion",), ("kind",), ("status",), ("spec", "runtimeRef"))
    translation.know(*((RUNTIME, key) for key in ("apiVersion", "kind", "metadata")))
    return translation


def _template(translation: Translation, jobs: list[ReplicatedJob], roles: list[Role]) -> None:
    """Convert the JobSet in the runtime: its policies, and its pods that do not train."""
    spec, main = (*TEMPLATE, "spec"), roles[-1].job
    taken = [role.job for role in roles]
    others = [job for job in jobs if job not in taken]
    pod = (*roles[0].path, "template", "spec")
    carry_initializers(translation, pod, jobs, taken)
    carry_initializer_fields(translation, pod, others)
    carry_claims(translation, spec, pod)
    carry_policies(translation, spec, main, [job.name for job in taken])
    for job in taken:
        settle_job(translation, job, [each.name for each in jobs])
    note_labels(translation, [(*role.template, "spec") for role in roles])


def _policy(translation: Translation) -> str:
    """Return the key of the runtime's mlPolicy that says how the ranks start.

    Raise ValuesError for a key that distrain does not support.
    """
    found = translation.block(POLICY)
    known = [key for key in KINDS if key in found]
    others = [key for key in found if key not in (*KINDS, "numNodes")]
    if len(known) == 1 and not others:
        return known[0]
    words = f"is {', '.join(map(quoting.key, [*known, *others]))}" if known or others else "has neither torch nor mpi"
    limit = "but distrain can start ranks only with torch or mpi"
    raise translation.refuse(POLICY, f"{words}, {limit}; set one of the two")


def _framework(translation: Translation, policy: str) -> None:
    """If a job uses MPI, set its framework from the label of the runtime.

    Without the label, the import chooses the framework by the image or the command.
    """
    path = (RUNTIME, "metadata", "labels", FRAMEWORK_LABEL)
    if policy == "mpi" and translation.source.get(path) in TORCH_FRAMEWORKS:
        translation.choose(("framework",), "pytorch", path)
        translation.choose(("job", "kind"), "MPIJob", (*POLICY, policy))


def _jobs_of(
    translation: Translation, jobs: list[ReplicatedJob], policy: str
) -> tuple[ReplicatedJob, ReplicatedJob | None]:
    """Return the job whose pods train, and the job that runs mpirun, if any."""
    steps = [job for job in jobs if job.step == STEP]
    named = {job.name: job for job in jobs}
    if policy == "torch":
        trains = steps[0] if steps else named.get(NODE)
    else:
        launcher = named.get(LAUNCHER) or (steps[0] if steps else None)
        trains = named.get(NODE) or launcher
        if trains and launcher:
            return trains, launcher
    if trains is None:
        words = (
            f"has {', '.join(map(quoting.key, named))}, but none of these jobs is named {NODE} or has the "
            f"label {STEP_LABEL}: trainer"
        )
        step = "add that name or label to the job that trains"
        raise translation.refuse((*TEMPLATE, "spec", "replicatedJobs"), f"{words}; {step}")
    return trains, None


def _put(translation: Translation, name: str, job: ReplicatedJob) -> Role:
    path = (*SPEC, KUBEFLOW[translation.job["kind"]].replicas, name)
    put_pods(translation, path, job)
    translation.set((*path, "replicas"), 1)
    return Role(job, path)


def _metadata(translation: Translation) -> None:
    translation.copy(("metadata",), ("metadata",))
    queue = (*TEMPLATE, "metadata", "annotations", QUEUE_ANNOTATION)
    for path in (queue, ("metadata", "annotations", QUEUE_ANNOTATION)):
        if name := translation.source.get(path):
            translation.choose(("gang", "queue"), name, path)
            translation.drop(("metadata", "annotations", QUEUE_ANNOTATION))
    for key in ("labels", "annotations"):
        for name, value in translation.block(("metadata", key)).items():
            theirs = (*TEMPLATE, "metadata", key, name)
            if translation.source.get(theirs) == value:
                translation.know(theirs)
            translation.lose(theirs, "the TrainJob has another value of this name")
    carry_metadata(translation, (*TEMPLATE, "metadata"), SPEC)


def _settings(translation: Translation, policy: str, roles: list[Role]) -> None:
    """Convert the TrainJob's fields for the whole job, and the policies of its runtime."""
    for key in ("suspend", "managedBy", "activeDeadlineSeconds"):
        translation.copy((*SPEC, key), (*SPEC, key))
    _gang(translation, roles)
    is_node = policy == "mpi" and translation.source.get((*POLICY, "mpi", "runLauncherAsNode")) is True
    carry_patches(translation, roles)
    carry_trainer(translation, roles, is_launcher_node=is_node)
    if policy == "mpi":
        for key in ("mpiImplementation", "sshAuthMountPath"):
            translation.copy((*SPEC, key), (*POLICY, "mpi", key))
        translation.know((*POLICY, "mpi", "runLauncherAsNode"))
    elastic = "the Trainer takes it and starts a fixed number; set workers.minReplicas, maxReplicas and job.elastic"
    translation.lose((*POLICY, "torch", "elasticPolicy"), elastic)
    translation.lose((*POLICY, "torch", "envInjection"), "the chart sets PET_* in no other container")


def _gang(translation: Translation, roles: list[Role]) -> None:
    for key, (scheduler, name) in GANGS.items():
        path = (RUNTIME, "spec", "podGroupPolicy", key)
        if translation.source.get(path) is None:
            continue
        for role in roles:
            pod = (*role.path, "template", "spec", "schedulerName")
            if translation.get(pod) == name:
                translation.drop(pod)
        translation.lose((*path, "scheduleTimeoutSeconds"), NO_VALUE)
        translation.lose((*path, "networkTopology"), NO_VALUE)
        translation.choose(("gang", "scheduler"), scheduler, path)


def _size(translation: Translation, policy: str, roles: list[Role]) -> None:
    """Set the number of workers, and the number of ranks per worker."""
    path = NODES if translation.source.get(NODES) is not None else (*POLICY, "numNodes")
    number = translation.number(path, 1)
    translation.number((*POLICY, "numNodes"), 1)
    worker = roles[0]
    if policy == "mpi" and translation.source.get((*POLICY, "mpi", "runLauncherAsNode")) is True:
        number = _with_launcher(translation, number, roles)
    translation.set((*worker.path, "replicas"), number, path)
    translation.know(NODES, (*POLICY, "numNodes"))
    _processes(translation, policy, worker)


def _with_launcher(translation: Translation, number: int, roles: list[Role]) -> int:
    """Return how many nodes train if the launcher is a node, too.

    The Trainer's rule is in pkg/runtime/framework/plugins/mpi/mpi.go, v2.3.0.
    """
    if roles[0].job is roles[-1].job:
        return 1
    total = max(number - 1, 1) + 1
    more = f" (the Trainer runs {total} nodes for numNodes {number})" if total != number else ""
    translation.notes.append(
        f"runtime.spec.mlPolicy.mpi.runLauncherAsNode: the launcher was one of {total} nodes{more}; here {total} "
        "workers train, and the launcher only starts them"
    )
    return total


def _processes(translation: Translation, policy: str, worker: Role) -> None:
    """Set the number of ranks per node, if the source sets another number than the Trainer's default."""
    field = (*SPEC, "slotsPerWorker" if policy == "mpi" else "nprocPerNode")
    default = (*POLICY, policy, "numProcPerNode")
    if translation.source.get(PROCESSES) is not None:
        translation.copy(field, PROCESSES)
    elif policy == "torch" or translation.source.get(default) != 1:
        translation.copy(field, default)
    translation.know(default)
    words = worker.words(translation)
    if words[:2] == ["tune", "run"]:
        translation.notes.append(TUNE)
    elif policy == "torch" and words and not runs(words, TORCH):
        translation.notes.append(f"{text(PROCESSES[:-1])}: {RAN_ONCE}")
    elif policy == "torch" and translation.get(field) in (None, "auto") and (cpus := worker.cpus(translation)) > 1:
        translation.notes.append(
            f"{text(PROCESSES)}: without GPUs the Trainer starts a rank for each of {cpus} CPUs; here a worker is one "
            "rank: raise workers.replicas for more"
        )
