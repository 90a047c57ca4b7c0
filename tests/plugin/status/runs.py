"""Create the objects of a run as the operators create them, and serve them from a fake API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, mpi_job, mx_job, plain, pytorch_job, tf_job
from tests.plugin.program import Outcome

BORN = "2026-01-01T00:00:00Z"
LABELS = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
# Labels of an object of run1 that Argo CD tracks by the label app.kubernetes.io/instance.
BY_ARGO = {**LABELS, "app.kubernetes.io/instance": "app", "distrain/instance": "run1"}
KINDS = ("MPIJob", "PyTorchJob", "MXJob", "TFJob")
NAMESPACE = "/api/v1/namespaces/team"


def live(job: Object, *conditions: str, release: str = "run1", **metadata: Any) -> Object:
    """Return a job as the API server returns it, with these conditions."""
    job = json.loads(json.dumps(job).replace('"run1"', f'"{release}"'))
    name = job["metadata"]["name"]
    labels = {**LABELS, "app.kubernetes.io/instance": release}
    found = {"namespace": "team", "uid": f"uid-{name}", "labels": labels, "creationTimestamp": BORN, **metadata}
    told = [{"type": condition, "status": "True", "message": f"{name} {condition}"} for condition in conditions]
    return {**job, "metadata": {**job["metadata"], **found}, "status": {"conditions": told}}


def changed(job: Object, *, suspend: bool) -> Object:
    """Return a copy of the job in which the field `suspend` is true or false.

    In a Job, this field is in the spec. In a Kubeflow job, it is in the run policy.
    """
    field = {"suspend": suspend} if job["kind"] == "Job" else {"runPolicy": {"suspend": suspend}}
    return {**job, "spec": {**job["spec"], **field}}


def pod(role: str, number: int = 0, *, release: str = "run1", phase: str = "Running", **status: Any) -> Object:
    """Return a pod of the run. By default, the container of this pod is running and ready."""
    name = f"{release}-{role}" if role == "launcher" else f"{release}-{role}-{number}"
    labels = {**LABELS, "app.kubernetes.io/instance": release, "app.kubernetes.io/component": role}
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "labels": labels, "creationTimestamp": BORN}
    if phase == "Running":
        status = {"containerStatuses": [{"name": role, "state": {"running": {"startedAt": BORN}}}], **status}
        status.setdefault("conditions", [{"type": "Ready", "status": "True"}])
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": role, "image": "r:1"}]},
        "status": {"phase": phase, **status},
    }


def renamed(made: Object, name: str) -> Object:
    return {**made, "metadata": {**made["metadata"], "name": name, "uid": f"uid-{name}"}}


def over(objects: list[Object], how: str) -> list[Object]:
    """Return the objects of a job that has Succeeded, has Failed or is `suspended`.

    The Job that creates the SSH key of a Plain job has always succeeded.
    """
    if how == "suspended":
        return [changed(each, suspend=True) for each in objects]
    return [live(each, *_ends(each, how)) for each in objects]


def _ends(job: Object, how: str) -> list[str]:
    if job["kind"] != "Job":
        return [how]
    ends = {"keygen": "Complete", "launcher": how.replace("Succeeded", "Complete")}
    return [condition for role, condition in ends.items() if job["metadata"]["name"].endswith(role)]


def subsets(roles: list[str]) -> Iterator[list[str]]:
    for number in range(len(roles) + 1):
        yield from map(list, combinations(roles, number))


def unplaced(
    role: str, number: int = 0, words: str = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    return pod(role, number, phase="Pending", conditions=[condition])


def stuck(role: str, number: int = 0, *, reason: str, message: str = "") -> Object:
    """Return a placed pod whose container kubelet cannot start."""
    waiting = {"name": role, "image": "r:1", "state": {"waiting": {"reason": reason, "message": message}}}
    return pod(role, number, phase="Pending", containerStatuses=[waiting])


def step(number: int, at: float = 1767225600.0, **figures: Any) -> str:
    """Return the JSON line that the trainer logs for a step, with the timestamp that kubelet adds."""
    told = {"step": number, "steps": 1000, "world_size": 2, "unix_seconds": at, **figures}
    return f"2026-01-01T00:00:00.123456789Z distrain-progress: {json.dumps(told)}\n"


def serve(api: FakeApi, *objects: Object, pods: list[Object] | None = None, **logs: str | bytes) -> None:
    """Make the fake API serve runs: jobs, other objects and pods.

    `logs` maps the name of a pod to its log. A keyword argument cannot contain -, so the name of a pod has _ in its
    place.
    """
    api.serve_group("kubeflow.org", {"v2beta1": ["MPIJob"], "v1": ["PyTorchJob", "MXJob", "TFJob"]})
    by_path: dict[str, list[Object]] = {"/apis/batch/v1/namespaces/team/jobs": []}
    by_path |= {f"/apis/kubeflow.org/v1/namespaces/team/{kind.lower()}s": [] for kind in KINDS[1:]}
    by_path["/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"] = []
    for each in objects:
        if each["kind"] in (*KINDS, "Job"):
            by_path[f"/apis/{each['apiVersion']}/namespaces/team/{each['kind'].lower()}s"].append(each)
    events: list[Object] = []
    api.answers |= {
        **by_path,
        "/api/v1/pods": pods or [],
        f"{NAMESPACE}/pods": pods or [],
        f"{NAMESPACE}/events": events,
    }
    for name, text in logs.items():
        path = f"{NAMESPACE}/pods/{name.replace('_', '-')}/log"
        api.texts[path] = text if isinstance(text, bytes) else text.encode()


MPI = live(mpi_job(workers=2, gpus=1))
PYTORCH = live(pytorch_job(workers=2, gpus=1))
FIXED = live(pytorch_job(workers=2, gpus=1, master=True))
MX = live(mx_job(servers=1, workers=2, gpus=1))
TF = live(tf_job(servers=1, workers=2, gpus=1))
MPI_V1 = live(mpi_job(workers=2, gpus=1, version="v1"))
PLAIN = [live(each) for each in plain(workers=2, gpus=1) if each["kind"] == "Job"]
# For each kind of job: its objects, the role of the pod with the run's main log, and the roles of its other pods.
ROLES: dict[str, tuple[list[Object], str, list[str]]] = {
    "MPIJob": ([MPI], "launcher", ["worker"]),
    "Plain": (PLAIN, "launcher", ["keygen", "worker"]),
    "elastic PyTorchJob": ([PYTORCH], "worker", []),
    "PyTorchJob with a Master": ([FIXED], "master", ["worker"]),
    "MXJob": ([MX], "worker", ["scheduler", "server"]),
    "TFJob": ([TF], "chief", ["server", "worker"]),
}
UP = [pod("launcher"), pod("worker", 0), pod("worker", 1)]
WAITING = [pod("worker", 0), unplaced("worker", 1)]
# An MPIJob that has succeeded, and an MPIJob that has failed.
DONE, BROKEN = live({**MPI, "status": {}}, "Succeeded"), live({**MPI, "status": {}}, "Failed")
MPI_JOBS = "/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs"


def rows_of(outcome: Outcome) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in outcome.out.splitlines())


def interrupt(*_: object) -> None:
    """Interrupt this process, as Ctrl-C does."""
    raise KeyboardInterrupt
