"""Read the values of the chart stable/horovod.

The values are those of values.yaml, README.md and the templates in helm/charts, stable/horovod.
"""

from __future__ import annotations

from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft, Part
from distrain.imports.jobs import forms
from distrain.imports.jobs.pod import PROCESSES
from distrain.imports.jobs.resources import carry_resources
from distrain.imports.launch.carried import carry_line
from distrain.imports.ledger import Ledger, Path
from distrain.imports.secrets import quoting

# The defaults of the chart stable/horovod. The values of a release may leave them out.
NUMBER = 3
REPOSITORY, TAG = "horovod/horovod", "0.19.3-tf2.1.0-torch-mxnet1.6.0-py3.6-gpu"
# In older releases of that chart the key `driver` was used instead of `master`.
MASTERS = ("master", "driver")
SSH_WHY = "distrain makes the SSH key itself, or takes yours from the Secret in ssh.secretName"
NAME = "horovod"


def is_values(data: Any) -> bool:
    """Tell whether a YAML block contains values of the chart stable/horovod."""
    if not isinstance(data, dict) or "kind" in data:
        return False
    worker = data.get("worker")
    has_args = any(isinstance(data.get(key), dict) and "args" in data[key] for key in MASTERS)
    return (isinstance(worker, dict) and "number" in worker) or has_args


def read_horovod_chart(data: dict[str, Any], origin: str) -> Draft:
    """Convert the values of stable/horovod to values of the chart; raise ValuesError if a field has a wrong form."""
    if wrong := [*forms.mistakes({key: each for key, each in data.items() if key in ("resources", "annotations")})]:
        raise ValuesError(*(f"{origin}: {mistake}" for mistake in wrong))
    ledger = Ledger(data)
    draft = Draft(ledger, NAME, origin=origin)
    draft.credentials.secret = f"{NAME}-credentials"
    master = next((key for key in MASTERS if isinstance(ledger.get((key,)), dict)), MASTERS[0])
    draft.choose(("job", "kind"), "Plain", "the chart makes a Job and a StatefulSet, without an operator")
    _size(draft, origin)
    _images(draft, master)
    _pods(draft, master)
    _ssh(draft)
    _command(draft, master, origin)
    return draft


def _size(draft: Draft, origin: str) -> None:
    number = draft.ledger.get(("worker", "number"), NUMBER)
    if not isinstance(number, int) or isinstance(number, bool):
        words = f"is {quoting.literal(number)}, but must be a whole number; correct it"
        raise ValuesError(f"{origin}: worker.number: {words}")
    draft.carry(("workers", "replicas"), number, ("worker", "number"))
    if draft.ledger.get(("worker", "podManagementPolicy")) == "Parallel":
        draft.know(("worker", "podManagementPolicy"))
    draft.lose(("worker", "podManagementPolicy"), "the workers start all at once, as with Parallel")
    place: Path = ("worker", "resources") if draft.ledger.get(("worker", "resources")) else ("resources",)
    carry_resources(draft, "workers", place)
    own = ("master", "resources")
    if draft.ledger.get(own):
        carry_resources(draft, "launcher", own)


def _images(draft: Draft, master: str) -> None:
    path = ("worker", "image")
    for key, default in (("repository", REPOSITORY), ("tag", TAG), ("pullPolicy", "Always")):
        value = draft.ledger.get((*path, key))
        if value is None:
            draft.choose(("image", key), default, "the default of stable/horovod")
        else:
            draft.carry(("image", key), str(value), (*path, key))
    for key in ("repository", "tag", "pullPolicy"):
        theirs, ours = (master, "image", key), (*path, key)
        if draft.ledger.get(theirs) == draft.ledger.get(ours):
            draft.know(theirs)
        draft.lose(theirs, "all pods have the image of the workers")


def _pods(draft: Draft, master: str) -> None:
    ledger = draft.ledger
    is_on_host = bool(ledger.get(("useHostNetwork",)))
    if is_on_host:
        draft.carry(("podSpec", "hostNetwork"), True, ("useHostNetwork",))
    if ledger.get(("useHostPID",)):
        draft.lose(("useHostPID",), PROCESSES)
    draft.know(("useHostNetwork",), ("useHostPID",))
    privileged = [key for key in ("worker", master) if ledger.get((key, "privileged"))]
    added = ledger.get(("capabilities", "add"))
    if added:
        draft.carry(("containerSecurityContext",), {"capabilities": {"add": added}}, ("capabilities", "add"))
    for key in privileged:
        draft.lose((key, "privileged"), "name what the pods need in workers.containerSecurityContext")
    level = "privileged" if is_on_host or added else "baseline"
    why = "useHostNetwork" if is_on_host else "capabilities" if added else "the images run as root"
    draft.choose(("podSecurity",), level, why)
    annotations = ledger.get(("annotations",), {})
    draft.carry_part(("podAnnotations",), Part(annotations, tuple(("annotations", key) for key in annotations)))
    for key in ("volumes", "volumeMounts"):
        if isinstance(ledger.get((key,)), list):
            draft.carry((key,), ledger.get((key,)), *((key, index) for index, _ in enumerate(ledger.get((key,)))))
    for key, section in (("worker", "workers"), (master, "launcher")):
        _env(draft, key, section)
    draft.settings = {target: setting for target, setting in draft.settings.items() if setting.value not in ({}, [])}


def _env(draft: Draft, key: str, section: str) -> None:
    env = draft.ledger.get((key, "env"), {})
    if isinstance(env, dict):
        entries = [draft.credentials.env({"name": name, "value": str(value)}) for name, value in env.items()]
        draft.carry((section, "env"), entries, *((key, "env", name) for name in env))


def _ssh(draft: Draft) -> None:
    port = draft.ledger.get(("ssh", "port"))
    if port not in (None, 22):
        draft.carry(("ssh", "port"), port, ("ssh", "port"))
    elif port == 22:
        draft.know(("ssh", "port"))
        draft.note("ssh.port: the workers' sshd listened on 22, and listens on 2222 here; distrain-launch knows")
    for key in ("useSecrets", "hostKey", "hostKeyPub"):
        draft.lose(("ssh", key), SSH_WHY)


def _command(draft: Draft, master: str, origin: str) -> None:
    path = (master, "args")
    args = draft.ledger.get(path)
    line = " ".join(map(str, args)) if isinstance(args, list) else str(args or "")
    if not line.strip():
        raise ValuesError(
            f"{origin}: {master}.args: is missing, so the master runs nothing; write the mpirun line there"
        )
    words = line.lower() + str(draft.value(("image", "repository")))
    name = "pytorch" if "torch" in words else "mxnet" if "mxnet" in words else "tensorflow"
    draft.choose(("framework",), name, f"{master}.args")
    carry_line(draft, line, path)
