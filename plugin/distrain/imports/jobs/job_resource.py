"""Read a job resource of the Kubeflow operators: MPIJob, PyTorchJob, TFJob and MXJob.

The fields are those of mpi-operator v0.3.0 (v1alpha2, v1, v2beta1) and v0.8.0 (v2beta1), training-operator v1.8.1 (v1)
and mxnet-operator v1.1.0 (MXJob v1beta1 and v1, whose run policy is in spec).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft, Part
from distrain.imports.jobs import command, image, security
from distrain.imports.jobs.groups import main_container, note_differences
from distrain.imports.jobs.pod import RESTARTS, kept_metadata, read_pod
from distrain.imports.jobs.run_policy import read_policy
from distrain.imports.jobs.spread import Role, merge_twin, spread
from distrain.imports.ledger import Ledger, Path
from distrain.imports.secrets import quoting
from distrain.redact import HIDDEN
from distrain.workload.kinds import KUBEFLOW, QUEUE_LABEL, VERSIONS

# For each role of each kind, its section in the chart's values. If several roles share a section, the import uses the
# first of these roles that the job has.
SECTIONS = {
    "MPIJob": {"Launcher": "launcher", "Worker": "workers"},
    "PyTorchJob": {"Worker": "workers", "Master": "workers"},
    "TFJob": {"Worker": "workers", "PS": "servers", "Chief": "launcher", "Master": "launcher"},
    "MXJob": {"Worker": "workers", "Server": "servers", "Scheduler": "scheduler"},
}
# The roles that each job of the chart has, and the section of each role in the values.
NEEDED = {
    "TFJob": {"PS": "servers", "Chief": "launcher"},
    "MXJob": {"Server": "servers", "Scheduler": "scheduler"},
}
FRAMEWORKS = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "MXJob": "mxnet"}
PARAMETER_SERVER = ("TFJob", "MXJob")
# Fields of `metadata` that the API server sets, or that name the object's owner.
STATE = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields", "ownerReferences"),
    *("finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"),
)
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
MOST = 53


def read_job(item: dict[str, Any], origin: str, origins: Mapping[Path, Path] | None = None) -> Draft:
    """Convert a job resource to values of the chart; raise ValuesError if the resource is not a job that can run.

    If the resource was built from another format, `origins` maps paths in the resource to paths in the source.
    """
    version = VERSIONS.get((str(item.get("apiVersion")), str(item.get("kind"))))
    assert version
    ledger = Ledger(item, origins)
    draft = Draft(ledger, release_name(ledger.get(("metadata", "name"))), origin=origin)
    draft.kind, draft.version = version.kind, version.name
    draft.credentials.secret = f"{draft.name}-credentials"
    draft.know(("apiVersion",), ("kind",), ("status",))
    if origins is not None:
        # Without cleanPodPolicy, the import would note that pods may keep GPUs after the job has ended. In the source's
        # own kind of job no pods do this, so the note is not needed.
        draft.know(("spec", "runPolicy", "cleanPodPolicy"))
    roles = [*_roles(draft, origin)]
    _metadata(draft)
    _kind(draft, roles)
    parts = {role.section: read_pod(draft, role.section, role.template, role.container) for role in roles}
    _size(draft, roles, origin)
    image.carry_image(draft, roles)
    security.carry_security(draft, roles, parts)
    programs = command.Commands(draft, roles, parts)
    programs.move_exported()
    spread(draft, roles, parts)
    programs.carry()
    read_policy(draft)
    _twins(draft, roles)
    return draft


def release_name(name: Any) -> str:
    """Return a valid release name. It is made from the source's name, unless that name may be a credential."""
    known = "" if quoting.key(name) == HIDDEN else str(name or "")
    plain = re.sub(r"[^a-z0-9-]+", "-", known.lower()).strip("-")[:MOST].strip("-")
    return plain if re.match(r"[a-z]", plain) else f"run-{plain}".strip("-") if plain else "run1"


def _roles(draft: Draft, origin: str) -> Iterator[Role]:
    kind, ledger = draft.kind, draft.ledger
    replicas = ("spec", KUBEFLOW[kind].replicas)
    specs = ledger.get(replicas)
    if not isinstance(specs, dict) or not specs:
        raise ValuesError(f"{origin}: {draft.place(replicas)} is missing, so the {kind} has no pods; add it there")
    _refuse_other_form(draft, specs, origin)
    names = {_role_name(kind, name): name for name in specs}
    taken: set[str] = set()
    for role, section in SECTIONS[kind].items():
        if role not in names or section in taken:
            continue
        path = (*replicas, names[role])
        count = ledger.get((*path, "replicas"), 1)
        containers = ledger.get((*path, "template", "spec", "containers"))
        if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers) or not containers:
            place = draft.place((*path, "template", "spec", "containers"))
            raise ValuesError(f"{origin}: {place}: has no container; write one there")
        taken.add(section)
        index = main_container(draft, containers)
        yield Role(role, section, (*path, "template"), index, count, kind == "MPIJob" and role == "Launcher")


def _role_name(kind: str, name: str) -> str:
    """Return the role's name as the operators write it; they accept it in upper and lower case."""
    return next((role for role in (*SECTIONS[kind], "Evaluator") if role.lower() == str(name).lower()), str(name))


def _refuse_other_form(draft: Draft, specs: dict[str, Any], origin: str) -> None:
    kind, path = draft.kind, f"spec.{KUBEFLOW[draft.kind].replicas}"
    names = [_role_name(kind, name) for name in specs]
    if kind == "MXJob" and draft.ledger.get(("spec", "jobMode"), "MXTrain") != "MXTrain":
        mode = draft.ledger.get(("spec", "jobMode"))
        raise ValuesError(
            f"{origin}: spec.jobMode: {quoting.value(mode)} only tunes operators (kernels) and trains no model; "
            "import a job whose jobMode is MXTrain"
        )
    draft.know(("spec", "jobMode"))
    launchers = draft.ledger.get(("spec", KUBEFLOW[kind].replicas, "Launcher", "replicas"), 1)
    if kind == "MPIJob" and ("Launcher" not in names or launchers != 1):
        found = f"{quoting.value(launchers)} launchers" if "Launcher" in names else "no launcher"
        step = "set its replicas to 1" if "Launcher" in names else "add a Launcher with 1 replica"
        words = f"found {found}, but an MPIJob must have exactly one, which runs mpirun; {step}"
        raise ValuesError(f"{origin}: {path}.Launcher: {words}")
    needed = {"MPIJob": {"Worker"}, "PyTorchJob": {"Worker", "Master"}}.get(kind, {"Worker"})
    if not needed & set(names):
        raise ValuesError(
            f"{origin}: {path}: has {', '.join(map(quoting.key, names))} and no Worker, so nothing would "
            f"train; add it there"
        )
    for name in specs:
        place = draft.place(("spec", KUBEFLOW[kind].replicas, name))
        if not isinstance(specs[name], dict):
            raise ValuesError(f"{origin}: {place}: must be a mapping of keys; correct it there")
        count = Ledger(specs[name]).get(("replicas",), 1)
        if not isinstance(count, int) or isinstance(count, bool):
            words = f"is {quoting.literal(count)}, but the number of replicas must be whole; correct it"
            raise ValuesError(f"{origin}: {place}.replicas: {words}")


def _metadata(draft: Draft) -> None:
    ledger = draft.ledger
    draft.know(*(("metadata", name) for name in STATE), ("metadata", "name"), ("metadata", "namespace"))
    draft.namespace = str(ledger.get(("metadata", "namespace"), ""))
    draft.lose(("metadata", "generateName"), "a release has one name")
    labels = kept_metadata(draft, ("metadata", "labels"))
    _queue(draft, labels)
    for target, part in (
        ("commonLabels", labels),
        ("commonAnnotations", kept_metadata(draft, ("metadata", "annotations"))),
    ):
        if part.value:
            draft.carry_part((target,), part)


def _queue(draft: Draft, labels: Part) -> None:
    """Convert Kueue's labels for the queue and the priority to gang.queue and gang.priorityClass."""
    targets = {QUEUE_LABEL: "queue", PRIORITY_LABEL: "priorityClass"}
    for label, key in targets.items():
        if label in labels.value:
            path = ("metadata", "labels", label)
            if key == "queue":
                draft.carry(("gang", "scheduler"), "kueue", path)
            draft.carry(("gang", key), labels.value[label], path)
    kept = {key: value for key, value in labels.value.items() if key not in targets}
    labels.value, labels.paths = kept, tuple(("metadata", "labels", key) for key in kept)


def _kind(draft: Draft, roles: list[Role]) -> None:
    kind = draft.kind
    if kind == "MPIJob":
        framework, why = image.framework_of(draft, roles)
    else:
        framework, why = FRAMEWORKS[kind], f"kind: {kind}"
    draft.choose(("framework",), framework, why)
    if kind in PARAMETER_SERVER:
        draft.choose(("strategy",), "parameter-server", f"kind: {kind}")
    elif kind == "MPIJob" and framework == "pytorch":
        draft.choose(("job", "kind"), kind, "kind")


def _size(draft: Draft, roles: list[Role], origin: str) -> None:
    """Set the numbers of workers and servers.

    In the chart, every other role, such as the launcher, has exactly one pod. If such a role has another number of pods
    in the source, this number is reported as not imported.
    """
    base = ("spec", KUBEFLOW[draft.kind].replicas)
    counts: dict[str, tuple[int, Path]] = {}
    for name in draft.ledger.get(base):
        role = _role_name(draft.kind, name)
        counts[role] = (draft.ledger.get((*base, name, "replicas"), 1), (*base, name, "replicas"))
    _restart_policies(draft, base)
    number, path = counts.get("Worker", (0, ()))
    if draft.kind == "PyTorchJob":
        number, path = _pytorch_size(draft, counts)
    if number < 1:
        raise ValuesError(
            f"{origin}: {draft.place(path)}: is {number}, so nothing would train; write the number of workers there"
        )
    sources = [at for role, (_, at) in counts.items() if role in ("Worker", "Master") and draft.kind == "PyTorchJob"]
    draft.carry(("workers", "replicas"), number, *(sources or [path]))
    for role, (count, at) in counts.items():
        if SECTIONS[draft.kind].get(role) == "servers":
            draft.carry(("servers", "replicas"), count, at)
        elif count == 1:
            draft.know(at)
    _missing_roles(draft, roles)


def _restart_policies(draft: Draft, base: Path) -> None:
    """Set job.maxRestarts to 0 if the workers' restart policy is Never: the first failure then ends the job.

    Any other restart policy is reported as not imported.
    """
    paths = {_role_name(draft.kind, name): (*base, name, "restartPolicy") for name in draft.ledger.get(base)}
    is_final = draft.kind != "MPIJob" and draft.ledger.get(paths.get("Worker", ()), "") == "Never"
    if is_final and not draft.has(("job", "maxRestarts")):
        draft.carry(("job", "maxRestarts"), 0, paths["Worker"], why="Never")
    for role, path in paths.items():
        is_never = role == "Launcher" or draft.value(("job", "maxRestarts")) == 0
        if draft.ledger.get(path) == "Never" and is_never:
            draft.know(path)
        draft.lose(path, RESTARTS)


def _pytorch_size(draft: Draft, counts: Mapping[str, tuple[int, Path]]) -> tuple[int, Path]:
    number = sum(count for role, (count, _) in counts.items() if role in ("Master", "Worker"))
    elastic = ("spec", "elasticPolicy")
    if draft.ledger.get(elastic) is None:
        draft.choose(("job", "elastic"), False, "no spec.elasticPolicy: the number of workers is fixed")
        if "Master" not in counts:
            draft.note("the PyTorchJob has no Master; here the first of its workers becomes the Master")
    else:
        _elastic(draft, number, elastic)
        if "Master" in counts:
            draft.note("the PyTorchJob is elastic and has a Master; here the Master is one of the workers")
    return number, next(iter(counts.values()))[1]


def _elastic(draft: Draft, number: int, path: Path) -> None:
    # training-operator v1.8.1 pkg/apis/kubeflow.org/v1/pytorch_defaults.go: setElasticPolicy
    least, most = (draft.ledger.get((*path, key)) for key in ("minReplicas", "maxReplicas"))
    for key, value, other in (("minReplicas", least, most), ("maxReplicas", most, least)):
        if value is not None:
            _bound(draft, key, value, number, (*path, key))
        else:
            draft.choose(("workers", key), other or number, "the operator's default for spec.elasticPolicy")
    if draft.ledger.get((*path, "maxRestarts")) is not None:
        draft.carry(("job", "maxRestarts"), draft.ledger.get((*path, "maxRestarts")), (*path, "maxRestarts"))
    if draft.ledger.get((*path, "rdzvBackend"), "c10d") == "c10d":
        draft.know((*path, "rdzvBackend"))
    for key in ("rdzvBackend", "rdzvPort", "rdzvHost", "rdzvId", "rdzvConf", "standalone"):
        draft.lose((*path, key), "distrain sets the rendezvous")
    draft.lose(
        (*path, "metrics"), "distrain makes no HorizontalPodAutoscaler; `helm distrain rescale` changes the size"
    )


def _bound(draft: Draft, key: str, value: Any, number: int, path: Path) -> None:
    """Set workers.minReplicas or workers.maxReplicas of an elastic job.

    If the job's own number of workers is outside this limit, set the limit to this number.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and (value > number if key == "minReplicas" else value < number):
        draft.note(f"{draft.place(path)} is {value}, and the job has {number} workers; here workers.{key} is {number}")
        value = number
    draft.carry(("workers", key), value, path)


def _missing_roles(draft: Draft, roles: list[Role]) -> None:
    missing = [
        name for name, section in NEEDED.get(draft.kind, {}).items() if section not in {role.section for role in roles}
    ]
    if not missing:
        return
    words = f"the job has no {' and no '.join(missing)}, but the chart's {draft.kind} has one of each"
    if draft.kind == "TFJob":
        words += ": TF_CONFIG names them too, and MultiWorkerMirroredStrategy would wait for them"
    draft.note(words)


def _twins(draft: Draft, roles: list[Role]) -> None:
    """Compare two roles that share a section of the values, such as Master and Worker, and report their differences.

    The chart has one pod template for both.
    """
    base = ("spec", KUBEFLOW[draft.kind].replicas)
    for name in draft.ledger.get(base):
        role = _role_name(draft.kind, name)
        section = SECTIONS[draft.kind].get(role)
        twin = next((each for each in roles if each.section == section), None)
        if role == "Evaluator":
            draft.lose((*base, name), "distrain has no Evaluator; evaluate in the program, or in a job of its own")
        elif twin and twin.name != role:
            merge_twin(draft, twin.template, (*base, name, "template"))
    if draft.kind == "PyTorchJob":
        note_differences(draft, roles[0].template, [(*base, name) for name in draft.ledger.get(base)])
