"""Read the run policy of a job resource, in spec and in spec.runPolicy."""

from __future__ import annotations

from distrain.imports.draft import Draft
from distrain.imports.ledger import Path
from distrain.imports.secrets import quoting
from distrain.workload.kinds import KUBEFLOW

NO_VALUE = "the chart has no value for it"
KEYS = {
    "cleanPodPolicy": "cleanPodPolicy",
    "activeDeadlineSeconds": "activeDeadlineSeconds",
    "ttlSecondsAfterFinished": "ttlSecondsAfterFinished",
    "suspend": "suspend",
    "backoffLimit": "maxRestarts",
}
# The operators' own names: the default values of the field managedBy.
MANAGERS = ("kubeflow.org/", "trainer.kubeflow.org/", "jobset.sigs.k8s.io/")
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
VOLCANO = "volcano"
GANGS = {"volcano": "volcano", "scheduler-plugins-scheduler": "scheduler-plugins"}
SUCCESS = {
    "TFJob": "a TFJob of the chart succeeds when its Chief has; let the Chief wait for the workers",
    "MXJob": "an MXJob of the chart succeeds when its workers have",
}
# Fields of an MPIJob's spec that distrain sets itself, with the reason why another value is left out.
MPI_FIELDS = {
    "mainContainer": "the chart names the container that runs the program",
    "sshAuthMountPath": "runAsUser decides it: /root/.ssh for root, else /home/distrain/.ssh",
    "launcherCreationPolicy": "distrain-launch waits for the workers",
    "runLauncherAsWorker": "the launcher trains nothing here; add a worker",
}


def read_policy(draft: Draft) -> None:
    for place in (("spec", "runPolicy"), ("spec",)):
        for field, key in KEYS.items():
            _carry(draft, (*place, field), key)
        _managed_by(draft, (*place, "managedBy"))
        _scheduling(draft, (*place, "schedulingPolicy"))
    if not draft.has(("job", "cleanPodPolicy")):
        _no_clean_up(draft)
    _ranks(draft)
    if draft.kind == "MPIJob":
        _mpi_fields(draft)
    draft.lose(("spec", "successPolicy"), SUCCESS.get(draft.kind, NO_VALUE))


def _carry(draft: Draft, path: Path, key: str) -> None:
    value, target = draft.ledger.get(path), ("job", key)
    if value is None:
        return
    if draft.has(target):
        if draft.value(target) == value:
            draft.also(target, path)
        else:
            draft.lose(
                path,
                f"{'.'.join(target)} is {quoting.value(draft.value(target))}, from {draft.settings[target].origins[0]}",
            )
    elif key == "suspend" and not value:
        draft.know(path)
    elif key == "cleanPodPolicy" and value == "All" and _keeps_launcher(draft):
        draft.lose(
            path,
            "mpi-operator leaves the launcher nevertheless, so here Running; job.ttlSecondsAfterFinished deletes it",
        )
    else:
        why = "restarts within job.restartWindow, not in all" if key == "maxRestarts" and value else ""
        draft.carry(target, value, path, why=why)


def _keeps_launcher(draft: Draft) -> bool:
    return any(version.keeps_launcher for version in KUBEFLOW[draft.kind].versions if version.name == draft.version)


def _no_clean_up(draft: Draft) -> None:
    if not draft.ledger.is_settled(("spec", "runPolicy", "cleanPodPolicy")):
        draft.note(
            "no cleanPodPolicy: the operator keeps all pods of an ended job, and their GPUs; here Running frees them"
        )


def _managed_by(draft: Draft, path: Path) -> None:
    manager = draft.ledger.get(path)
    if manager == MULTIKUEUE:
        draft.carry(("job", "managedBy"), manager, path)
    elif manager:
        draft.know(path) if str(manager).startswith(MANAGERS) else draft.lose(path, "distrain knows MultiKueue alone")


def _scheduling(draft: Draft, path: Path) -> None:
    policy = draft.ledger.get(path)
    if not isinstance(policy, dict):
        return
    gang = next((GANGS[name] for name in _schedulers(draft) if name in GANGS), "")
    if not gang and (policy.get("queue") or policy.get("priorityClass")):
        gang = VOLCANO
    if gang and not draft.has(("gang", "scheduler")):
        _gang(draft, gang, path)
    draft.lose(
        (*path, "minAvailable"), "the gang has all pods of the job; gang.scheduler says which scheduler has to place it"
    )
    draft.lose((*path, "minResources"), "the gang scheduler computes it from the pods")
    draft.lose((*path, "scheduleTimeoutSeconds"), NO_VALUE)
    for key in ("queue", "priorityClass"):
        draft.lose((*path, key), "gang.scheduler has none")


def _schedulers(draft: Draft) -> list[str]:
    sections = ((), ("workers",), ("launcher",), ("servers",), ("scheduler",))
    return [str(draft.value((*section, "schedulerName"), "")) for section in sections]


def _gang(draft: Draft, gang: str, path: Path) -> None:
    draft.choose(("gang", "scheduler"), gang, f"{draft.place(path)}, and the pods' schedulerName")
    for section in ((), ("workers",), ("launcher",), ("servers",), ("scheduler",)):
        if GANGS.get(str(draft.value((*section, "schedulerName"), ""))) == gang:
            del draft.settings[(*section, "schedulerName")]
    if gang == VOLCANO:
        for key in ("queue", "priorityClass"):
            if draft.ledger.get((*path, key)):
                draft.carry(("gang", key), draft.ledger.get((*path, key)), (*path, key))
    base = ("spec", KUBEFLOW[draft.kind].replicas)
    pods = sum(draft.ledger.get((*base, name, "replicas"), 1) for name in draft.ledger.get(base))
    if draft.ledger.get((*path, "minAvailable")) == pods:
        draft.know((*path, "minAvailable"))


def _ranks(draft: Draft) -> None:
    """Report the source's number of ranks per worker as not imported if distrain starts a different number.

    distrain starts one rank for each GPU of a worker, or one rank on CPUs.
    """
    here = max(1, draft.value(("workers", "gpus"), 0))
    workers = draft.value(("workers", "replicas"), 1)
    for path in (("spec", "slotsPerWorker"), ("spec", "nprocPerNode"), ("spec", "elasticPolicy", "nProcPerNode")):
        found = draft.ledger.get(path)
        if found is None:
            continue
        if str(found) in (str(here), "auto") or (str(found), here) == ("cpu", 1) or (found == "gpu" and here):
            draft.know(path)
        else:
            ranks = int(found) if str(found).isdecimal() else 0
            more = f"; workers.replicas {workers * ranks} gives as many ranks" if ranks and here == 1 else ""
            draft.lose(
                path,
                f"{quoting.value(found)} ranks per worker; distrain starts {here}: one for each GPU, or one "
                f"on CPUs{more}",
            )


def _mpi_fields(draft: Draft) -> None:
    implementation = draft.ledger.get(("spec", "mpiImplementation"), "OpenMPI")
    if implementation == "OpenMPI":
        draft.know(("spec", "mpiImplementation"))
    draft.lose(
        ("spec", "mpiImplementation"),
        f"distrain runs Open MPI alone, and the image holds {quoting.value(implementation)}: change it",
    )
    folder = "/root/.ssh" if draft.value(("runAsUser",), 0) == 0 else "/home/distrain/.ssh"
    for field, why in MPI_FIELDS.items():
        path = ("spec", field)
        if draft.ledger.get(path) in ("AtStartup", False) or draft.ledger.get(path) == folder:
            draft.know(path)
        draft.lose(path, why)
