"""Provide credentials of every kind, and sources in every format with a credential wherever people put one."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable

from distrain.yaml import yaml_writer
from tests.plugin.imports.drafts import Job, mpi_job, pods, pytorch_job
from tests.plugin.imports.jobset_drafts import jobset, pod_of, replicated, runtime, trainjob

# Each credential of these tests contains this text, and no other text contains it.
MARK = "Zq7h"
_NUMBERS = itertools.count(1)


def plain() -> str:
    """Return a unique credential.

    The import hides a credential everywhere once it has recognized it at one place. With equal credentials, a test
    would not notice a place where the import does not recognize one.
    """
    return f"{MARK}{next(_NUMBERS)}unterZq7hunter2"


Pair = tuple[str, str]
# Names of variables and options whose values the import treats as credentials.
NAMES = (
    *("HF_TOKEN", "HFTOKEN", "TOK", "AWS_SECRET_ACCESS_KEY", "SECRETKEY", "WANDB_API_KEY", "WANDB_KEY", "COMET_API"),
    *(
        "DB_PASSWORD",
        "DB_PW",
        "DBPW",
        "MYSQL_PWD",
        "PASSPHRASE",
        "GITHUB_PAT",
        "CREDS",
        "RABBIT_CREDS",
        "CLIENT_SECRET",
    ),
    *("BEARER", "COOKIE", "SESSION_COOKIE", "DOCKERCONFIGJSON", "DOCKER_AUTH_CONFIG", "NETRC", "SAS", "OTP"),
    *("SENTRY_DSN", "KRB_KEYTAB", "MINIO_ROOT_USER"),
)
# Values that the import treats as credentials under any name.
VALUES = (
    f"https://hooks.slack.com/services/T00/B00/{plain()}",
    f"https://discord.com/api/webhooks/123/{plain()}",
    f"https://team.webhook.office.com/webhookb2/{plain()}",
    f"https://{plain()}@git.example.com/x.git",
    f"https://{plain()}@o1.ingest.example.com/1",
    f"https://me:{plain()}@example.com/x",
    f"git+https://oauth2:{plain()}@example.com/x",
    f"redis://:{plain()}@example.com:6379",
    f"https://example.com/set?X-Amz-Signature={plain()}",
    f"https://example.com/set?sv=2024-01-01&sig={plain()}",
    f"AIzaSy{plain()}{plain()}",
    f"xapp-1-A0-1-{plain()}",
    f"xoxb-1-{plain()}",
    f"dapi{plain()}abcdef0123456789",
    f"sk-ant-api03-{plain()}",
    f"hf_{plain()}",
    f"ghp_{plain()}",
    f"glpat-{plain()}",
    f"GOCSPX-{plain()}",
    f"sk_live_{plain()}",
    f"eyJhbGciOiJIUzI1NiJ9.{plain()}.{plain()}",
)
# Shell commands that write a credential in an unusual notation.
COMMANDS = (
    f"curl -u me:{plain()} https://example.com/set",
    f"curl -H 'Authorization: Bearer {plain()}' https://example.com/set",
    f'export DB_PASSWORD="{plain()},a"',
    f"export DB_PASSWORD={plain()},{MARK}",
    f"sshpass -p {plain()} scp host:/x .",
    f'echo {{"token": "{plain()}"}}',
    f'echo "{{\\"token\\": \\"{plain()}\\"}}"',
    f"TOKEN=${{TOKEN:-{plain()}}}",
)
PAIRS: tuple[Pair, ...] = (
    *((name, plain()) for name in NAMES),
    *((f"ANY_{number}", value) for number, value in enumerate(VALUES)),
)


def _flags(pairs: tuple[Pair, ...]) -> list[str]:
    """Return the names and values as options of a program, in both notations: `--name value` and `--name=value`."""
    names = [(f"--{name.lower().replace('_', '-')}", value) for name, value in pairs]
    return [word for name, value in names for word in (name, value, f"{name}={value}")]


def _env(pairs: tuple[Pair, ...]) -> list[Job]:
    return [{"name": name, "value": value} for name, value in pairs]


def _script(start: str) -> str:
    """Return a script that exports the credentials, uses some in commands, and passes them to a program."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in PAIRS]
    return "\n".join([*exports, *COMMANDS, f"{start} {shlex.join(_flags(PAIRS))}"])


def _beside(job: Job, role: str) -> Job:
    """Add to a pod an init container and a sidecar that use the credentials."""
    spec = pods(job, role)
    others = {"image": "a/b:1", "env": _env(PAIRS), "command": ["sh", "-c", _script("fetch")], "args": _flags(PAIRS)}
    spec["initContainers"] = [{"name": "fetch", **others}]
    spec["containers"].append({"name": "watch", **others})
    return job


def _labelled() -> Job:
    job = pytorch_job()
    for metadata in (
        job["metadata"],
        job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"].setdefault("metadata", {}),
    ):
        metadata["labels"] = {name: value for name, value in PAIRS if name in NAMES}
        metadata["annotations"] = dict(PAIRS)
    return job


def _in_volume() -> Job:
    job = pytorch_job()
    csi = {"driver": "d.example.com", "volumeAttributes": dict(PAIRS)}
    for role in ("Master", "Worker"):
        pods(job, role)["volumes"] = [{"name": "v", "csi": csi}]
    return job


def _exported_by_mpirun() -> Job:
    words = [word for name, value in PAIRS for word in ("-x", f"{name}={value}")]
    return mpi_job(launcher={"command": ["mpirun", *words, "python", "a.py", *_flags(PAIRS)]})


def _of_jobset() -> Job:
    fields = {"env": _env(PAIRS), "command": ["bash", "-c", _script("torchrun a.py")]}
    found = replicated("workers", fields)
    pod_of(found)["initContainers"] = [{"name": "fetch", "image": "a/b:1", "env": _env(PAIRS)}]
    return jobset(found)


def _ffdl() -> Job:
    store = {
        "id": "s",
        "type": "mount_cos",
        "training_data": {"container": "d"},
        "connection": {"user_name": plain(), "password": plain(), "auth_url": "http://s3.example.com"},
    }
    framework = {"name": "pytorch", "version": "1", "command": f"python a.py {shlex.join(_flags(PAIRS))}"}
    return {"learners": 1, "data_stores": [store], "framework": framework}


def _horovod() -> Job:
    env = dict(PAIRS)
    words = f"mpirun -np 2 -x TOKEN={plain()} python a.py {shlex.join(_flags(PAIRS))}"
    image = {"repository": "a/b", "tag": "1"}
    return {
        "worker": {"number": 2, "image": image, "env": env},
        "master": {"image": image, "env": env, "args": [words]},
        "ssh": {"hostKey": f"-----BEGIN RSA PRIVATE KEY-----\n{plain()}\n-----END RSA PRIVATE KEY-----"},
    }


def _slurm() -> str:
    exports = ",".join(f"{name}={value}" for name, value in PAIRS if name in NAMES)
    return (
        f"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=1\n#SBATCH --export=ALL,{exports}\n{_script('srun python a.py')}\n"
    )


def _arena() -> str:
    env = [f"--env={name}={value}" for name, value in PAIRS]
    marks = [f"--{flag}={name}={value}" for flag in ("label", "annotation") for name, value in PAIRS]
    source = [f"--sync-source=https://{plain()}@example.com/x.git", f"--unknown=hf_{plain()}"]
    words = ["arena", "submit", "mpijob", "--name=a", "--image=a/b:1", *env, *marks, *source]
    return shlex.join([*words, f"mpirun -np 2 python a.py {shlex.join(_flags(PAIRS))}"])


def _ksonnet() -> str:
    line = f"mpiexec -np 2 -x TOKEN={plain()} python a.py {shlex.join(_flags(PAIRS))}"
    return f"ks generate openmpi a --image a/b:1 --secret s --workers 2 --gpu 1 --exec {shlex.quote(line)}\n"


def _yaml(make: Callable[[], Job]) -> Callable[[], str]:
    return lambda: yaml_writer.dump(make())


SCRIPT = ["bash", "-c", _script("mpirun -np 4 python a.py")]
SOURCES: dict[str, Callable[[], str]] = {
    "env of a PyTorchJob": _yaml(lambda: pytorch_job({"env": _env(PAIRS)})),
    "env of an MPIJob": _yaml(lambda: mpi_job({"env": _env(PAIRS)}, {"env": _env(PAIRS[::-1])})),
    "words of a command": _yaml(lambda: pytorch_job({"command": ["torchrun", "a.py", *_flags(PAIRS)]})),
    "args alone": _yaml(lambda: pytorch_job({"command": None, "args": _flags(PAIRS)})),
    "options of mpirun": _yaml(_exported_by_mpirun),
    "script with mpirun": _yaml(lambda: mpi_job(launcher={"command": SCRIPT})),
    "script with torchrun": _yaml(lambda: pytorch_job({"command": ["bash", "-c", _script("torchrun a.py")]})),
    "script without a launcher": _yaml(lambda: pytorch_job({"command": ["sh", "-c", _script("python a.py")]})),
    "other containers": _yaml(lambda: _beside(pytorch_job(), "Worker")),
    "other containers of a launcher": _yaml(lambda: _beside(mpi_job(), "Launcher")),
    "labels and annotations": _yaml(_labelled),
    "options of a driver": _yaml(_in_volume),
    "login in an image's name": _yaml(lambda: pytorch_job({"image": f"me:{plain()}@reg.example.com/a/b:1"})),
    "JobSet": _yaml(_of_jobset),
    "TrainJob": lambda: yaml_writer.dump(
        trainjob({"env": _env(PAIRS), "command": ["torchrun", "a.py"], "args": _flags(PAIRS)}), runtime()
    ),
    "FfDL": _yaml(_ffdl),
    "stable/horovod": _yaml(_horovod),
    "Slurm": _slurm,
    "arena": _arena,
    "ksonnet": _ksonnet,
}
