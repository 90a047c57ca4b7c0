"""Make random job resources. They contain fields that teams often set, texts that occur only once, and credentials."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from distrain.imports.ledger import Path, leaves
from distrain.workload.kinds import VERSIONS

Job = dict[str, Any]
ROLES = {
    "MPIJob": ("Launcher", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
    "TFJob": ("Chief", "PS", "Worker", "Evaluator"),
    "MXJob": ("Scheduler", "Server", "Worker"),
}
REPLICAS = {
    "MPIJob": "mpiReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
}
CONTAINERS = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "MXJob": "mxnet"}
SECRET_NAMES = ("API_KEY", "DB_PASSWORD", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "clientSecret", "MINIO_ROOT_USER")
STARTERS = (
    "mpirun -np 4 --allow-run-as-root -x LD_LIBRARY_PATH -mca pml ob1",
    "mpiexec -n 4 -bind-to none --tag-output",
    "horovodrun -np 4 --min-np 2 --host-discovery-script /etc/mpi/discover_hosts.sh",
    "torchrun --nproc_per_node=2 --nnodes 2",
    "python -m torch.distributed.run --rdzv_backend=c10d",
    "",
)
ODD: tuple[Any, ...] = (
    None,
    [],
    {},
    "",
    "x",
    5,
    -1,
    1.5,
    True,
    [1],
    [None],
    {"a": 1},
    "e\u0301\n\t: #",
    10**20,
    ["a", {"b": [2]}],
)


class Maker:
    """Makes random job resources.

    The same seed makes the same job. `secrets` collects the credentials that the job contains.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.secrets: list[str] = []
        self._number = 0

    def word(self) -> str:
        """Return a unique text."""
        self._number += 1
        return f"zq{self._number}x"

    def secret(self) -> str:
        self.secrets.append(f"S3cr3t-{self.word()}")
        return self.secrets[-1]

    def some(self, fields: dict[str, Callable[[], Any]], share: float = 0.35) -> Job:
        return {name: make() for name, make in fields.items() if self.random.random() < share}

    def one(self, *choices: Any) -> Any:
        return copy.deepcopy(self.random.choice(choices))

    def job(self) -> Job:
        group, kind = self.one(*VERSIONS)
        return {
            "apiVersion": group,
            "kind": kind,
            "metadata": {"name": self.word(), "uid": self.word(), **self._metadata()},
            "spec": {
                **self.some(
                    {
                        "slotsPerWorker": lambda: self.one(1, 2, 8),
                        "runPolicy": self._policy,
                        "cleanPodPolicy": lambda: self.one("None", "Running", "All"),
                        "sshAuthMountPath": lambda: "/root/.ssh",
                        "elasticPolicy": lambda: {"minReplicas": 1, "maxReplicas": self.one(2, 3, 9)},
                        "unknownField": self.word,
                    }
                ),
                REPLICAS[kind]: {role: self._replica(kind, role) for role in ROLES[kind]},
            },
            "status": {"startTime": "2026-01-01T00:00:00Z"},
        }

    def _metadata(self) -> Job:
        return self.some(
            {
                "labels": lambda: {f"{self.word()}": self.word()},
                "annotations": lambda: {"note": self.word(), self.one(*SECRET_NAMES): self.secret()},
            }
        )

    def _policy(self) -> Job:
        return self.some(
            {
                "cleanPodPolicy": lambda: self.one("None", "Running", "All"),
                "backoffLimit": lambda: self.one(0, 3),
                "activeDeadlineSeconds": lambda: 3600,
                "ttlSecondsAfterFinished": lambda: 60,
                "suspend": lambda: self.one(True, False),
                "schedulingPolicy": lambda: {"minAvailable": 2, "queue": self.word()},
            }
        )

    def _replica(self, kind: str, role: str) -> Job:
        alone = role in ("Launcher", "Master", "Chief", "Scheduler")
        pod: Job = {
            "containers": [self._container(kind, role), *self._beside()],
            **self.some(
                {
                    "nodeSelector": lambda: {"pool": self.word()},
                    "tolerations": lambda: [{"key": self.word(), "operator": "Exists"}],
                    "volumes": lambda: [{"name": name, **self._volume()} for name in ("data", "dshm", "tmp")],
                    "initContainers": self._beside,
                    "priorityClassName": self.word,
                    "runtimeClassName": self.word,
                    "schedulerName": lambda: self.one("volcano", "default-scheduler", self.word()),
                    "serviceAccountName": self.word,
                    "hostNetwork": lambda: self.one(True, False),
                    "securityContext": lambda: self.one({"runAsUser": 1000, "fsGroup": 2000}, {"runAsUser": 0}),
                    "terminationGracePeriodSeconds": lambda: self.one(30, 120),
                    "subdomain": self.word,
                    "nodeName": self.word,
                }
            ),
        }
        template: Job = {"spec": pod, "metadata": self._metadata()} if self.random.random() < 0.5 else {"spec": pod}
        return {
            "replicas": 1 if alone else self.one(1, 2, 4),
            "restartPolicy": self.one("Never", "OnFailure"),
            "template": template,
        }

    def _beside(self) -> list[Job]:
        if self.random.random() < 0.7:
            return []
        words = ["sh", "-c", f"fetch --password {self.secret()} {self.word()}"]
        return [{"name": self.word(), "image": "tool:1", "command": words, "env": self._env()}]

    def _volume(self) -> Job:
        return self.one(
            {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"emptyDir": {"medium": "Memory"}},
            {"persistentVolumeClaim": {"claimName": self.word()}},
            {"hostPath": {"path": f"/{self.word()}"}},
            {"csi": {"driver": "d", "volumeAttributes": {"secretKey": self.secret()}}},
        )

    def _env(self) -> list[Job]:
        plain = {"name": self.one("LOGLEVEL", "TOKENIZERS_PARALLELISM", "NCCL_DEBUG"), "value": self.word()}
        secret = {"name": self.one(*SECRET_NAMES), "value": self.secret()}
        url = {"name": "SOURCE", "value": f"https://me:{self.secret()}@example.com/{self.word()}"}
        return self.random.sample([plain, secret, url], self.one(0, 1, 3))

    def _container(self, kind: str, role: str) -> Job:
        gpu = self.one("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
        return {
            "name": CONTAINERS.get(kind, "mpi"),
            "image": self.one("a/b:1", "a/b", "registry.example.com:5000/a/b@sha256:" + "0" * 64),
            **self._command(kind, role),
            **self.some(
                {
                    "env": self._env,
                    "resources": lambda: {"limits": {gpu: self.one(1, "2", 8), "memory": self.one("4Gi", "1e9")}},
                    "volumeMounts": lambda: [
                        {"name": "data", "mountPath": f"/{self.word()}"},
                        {"name": "dshm", "mountPath": "/dev/shm"},
                        {"name": "tmp", "mountPath": self.one("/tmp", "/scratch")},
                    ],
                    "workingDir": lambda: f"/{self.word()}",
                    "ports": lambda: [{"containerPort": 9999, "name": self.word()}],
                    "livenessProbe": lambda: {"exec": {"command": [self.word()]}},
                    "securityContext": lambda: {
                        "capabilities": {"add": ["IPC_LOCK"]},
                        "privileged": self.one(True, False),
                    },
                    "imagePullPolicy": lambda: self.one("Always", "IfNotPresent"),
                    "tty": lambda: self.one(True, False),
                }
            ),
        }

    def _command(self, kind: str, role: str) -> Job:
        starter = self.one(*STARTERS) if role != "Worker" or kind != "MPIJob" else ""
        program = f"python train.py --name {self.word()} --api-key {self.secret()} --token={self.secret()}"
        line = f"{starter} {program}".strip()
        return self.one(
            {"command": line.split()},
            {"command": ["bash", "-c"], "args": [f"cd /{self.word()} && {line} | tee {self.word()}"]},
            {"command": ["bash", "-c", f"for i in 1 2; do {line}; done"]},
            {"args": ["--lr", self.word()]},
            {},
        )


def mutated(job: Job, seed: int) -> Job:
    """Return the job with one random part replaced by an unusual value."""
    chance = random.Random(seed)
    found = copy.deepcopy(job)
    path = chance.choice([*_paths(found)])
    place: Any = found
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = copy.deepcopy(chance.choice(ODD))
    return found


def _paths(found: Any, path: Path = ()) -> Iterator[Path]:
    items = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, each in items:
        yield (*path, key)
        yield from _paths(each, (*path, key))


def texts(job: Job) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each value that contains a unique text."""
    for path in leaves(job):
        found: Any = job
        for part in path:
            found = found[part]
        if isinstance(found, str) and "zq" in found:
            yield path, found
