"""Read a job from the flags of a command line of arena: `arena submit mpijob|pytorchjob|tfjob`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.arena_flags import FLAGS, TFJOB
from distrain.imports.draft import Draft
from distrain.imports.jobs.image import set_image
from distrain.imports.jobs.job_resource import release_name
from distrain.imports.jobs.pod import PROCESSES
from distrain.imports.jobs.resources import NVIDIA, carry_resources
from distrain.imports.jobs.run_policy import NO_VALUE
from distrain.imports.launch.carried import carry_words
from distrain.imports.ledger import Ledger, Path
from distrain.imports.secrets import quoting

CLEAN = {"MPIJob": "None", "PyTorchJob": "Running", "TFJob": "Running"}
FOLDER, SHM = "/root", "2Gi"
WHY = {
    "rdma": "name the devices in workers.resources.limits, and set podSecurity and hostNetwork as the nodes need",
    "gang": "set gang.scheduler to the one that the cluster has",
    "queue": "set gang.scheduler to kueue and gang.queue to a LocalQueue",
    "sync-mode": "put the code into the image, or fetch it in an initContainer of the workers",
    "sync-source": "put the code into the image, or fetch it in an initContainer of the workers",
    "config-file": "make a ConfigMap of the file, and mount it with volumes and volumeMounts",
    "tensorboard": "run TensorBoard on its own",
    "logdir": "run TensorBoard on its own",
    **dict.fromkeys(("running-timeout", "ttl-after-finished"), "it is no duration such as 2h22m; set it in job"),
    "retry": "it is no whole number; set job.maxRestarts",
    "gputopology": "set workers.topology",
    "hostPID": PROCESSES,
    "mounts-on-launcher": "copy volumes and volumeMounts into launcher",
    "chief": "a TFJob of the chart always has a Chief",
    "success-policy": "a run of a TFJob succeeds when its Chief has; let the Chief wait for the workers",
    "starting-timeout": "`helm distrain install --wait --timeout` stops waiting for the pods",
    "role-sequence": "the pods start in any order",
    **dict.fromkeys(("worker-port", "ps-port", "chief-port"), "the operator chooses the ports, and TF_CONFIG has them"),
    **dict.fromkeys(("ps-image", "image", "worker-image"), "all pods have one image, that of the workers"),
    "ps-gpus": "name the GPUs in servers.resources.limits",
    "sync-image": "put the code into the image, or fetch it in an initContainer of the workers",
    **dict.fromkeys(("loglevel", "config", "arena-namespace", "pprof", "trace"), "it is for arena itself"),
    "tensorboard-image": "run TensorBoard on its own",
    **dict.fromkeys(
        (f"evaluator{part}" for part in ("", "-cpu", "-cpu-limit", "-memory", "-memory-limit", "-selector")),
        "distrain has no Evaluator; evaluate in the program, or in a job of its own",
    ),
}
# For each role of a TFJob, its section in the chart's values.
SECTIONS = {"worker": "workers", "ps": "servers", "chief": "launcher"}


def read_arena(data: dict[str, Any], origin: str) -> Draft:
    """Convert a command line to values of the chart; raise ValuesError if it names no image or no program."""
    ledger = Ledger(data)
    kind = str(data["kind"])
    draft = Draft(ledger, release_name(ledger.get(("name",))), origin=origin)
    draft.credentials.secret = f"{draft.name}-credentials"
    draft.namespace = str(ledger.get(("namespace",), ""))
    draft.know(("kind",), ("name",), ("namespace",))
    images = ("worker-image", "image") if kind == "TFJob" else ("image",)
    image = next((key for key in images if ledger.get((key,))), "")
    if not image or not ledger.get(("command",)):
        missing = "--image" if not image else "the program, in quotes at the end,"
        raise ValuesError(f"{origin}: arena submit: {missing} is missing; add it")
    set_image(draft, str(ledger.get((image,))), (image,))
    _kind(draft, kind)
    _size(draft, kind)
    _pods(draft, kind)
    _policy(draft, kind)
    _command(draft)
    _left_out(draft, kind)
    return draft


def _left_out(draft: Draft, kind: str) -> None:
    for key, value in draft.ledger.data.items():
        if value == "false" or (key == "success-policy" and value == "ChiefWorker"):
            draft.know((key,))
        is_known = key in FLAGS and (kind == "TFJob" or key not in TFJOB)
        if not is_known and not draft.ledger.is_settled((key,)):
            words = f"arena submit {kind.lower()} has no such flag; look in values.yaml for what it meant"
            draft.drop(quoting.key(key), words)
            draft.know((key,))
        for path in [(key, index) for index, _ in enumerate(value)] if isinstance(value, list) else [(key,)]:
            draft.lose(path, WHY.get(key, NO_VALUE))


def _kind(draft: Draft, kind: str) -> None:
    words = f"{draft.value(('image', 'repository'))} {draft.ledger.get(('command',))}".lower()
    framework = {"PyTorchJob": "pytorch", "TFJob": "tensorflow"}.get(kind)
    framework = framework or ("pytorch" if "torch" in words else "mxnet" if "mxnet" in words else "tensorflow")
    draft.choose(("framework",), framework, f"arena submit {kind.lower()}")
    if kind == "TFJob":
        draft.choose(("strategy",), "parameter-server", "arena submit tfjob")
    elif kind == "MPIJob" and framework == "pytorch":
        draft.choose(("job", "kind"), "MPIJob", "arena submit mpijob")
    elif kind == "PyTorchJob":
        draft.choose(("job", "elastic"), False, "a Master and Workers of a fixed number")


def _size(draft: Draft, kind: str) -> None:
    counts = [("workers", "1", ("workers", "replicas"))]
    counts += [("ps", "", ("servers", "replicas"))] if kind == "TFJob" else []
    for key, default, target in counts:
        number = str(draft.ledger.get((key,), default))
        if number and not number.isdecimal():
            words = f"is {quoting.value(number)}, but must be a whole number; correct it"
            raise ValuesError(f"{draft.origin}: --{key}: {words}")
        if number:
            draft.carry(target, int(number), (key,))
    for role, section in SECTIONS.items():
        if kind == "TFJob" or role == "worker":
            _amounts(draft, role, section)
    _ranks(draft, kind)


def _amounts(draft: Draft, role: str, section: str) -> None:
    """Set a role's CPUs, memory and GPUs. --worker-cpu overrides --cpu; --worker-cpu-limit is the limit."""
    keys = {NVIDIA: ["gpus" if role == "worker" else f"{role}-gpus"]}
    for name in ("cpu", "memory"):
        keys[name] = [f"{role}-{name}", *([name] if role == "worker" else [])]
    found: dict[str, dict[str, str]] = {"limits": {}, "requests": {}}
    origins: dict[Path, Path] = {}
    for name, names in keys.items():
        given = [key for key in names if draft.ledger.get((key,), "0") != "0"]
        limit = f"{role}-{name}-limit"
        for kind, key in (("limits", limit if draft.ledger.get((limit,)) else ""), ("requests", "")):
            key = key or next(iter(given), "")
            if key:
                found[kind][name], origins[kind, name] = str(draft.ledger.get((key,))), (key,)
        draft.know(*((key,) for key in (*names, limit)))
    inner = Draft(Ledger(found, origins), "", origin=draft.origin)
    carry_resources(inner, section, ())
    draft.settings |= inner.settings


def _ranks(draft: Draft, kind: str) -> None:
    shm = draft.ledger.get(("share-memory",))
    if kind == "PyTorchJob" or shm:
        draft.carry(("workers", "shm"), shm or SHM, ("share-memory",), why="" if shm else "arena's default")
    ranks, here = str(draft.ledger.get(("nproc-per-node",), "auto")), max(1, draft.value(("workers", "gpus"), 0))
    if ranks in ("auto", "gpu", str(here)):
        draft.know(("nproc-per-node",))
    draft.lose(
        ("nproc-per-node",),
        f"{quoting.value(ranks)} ranks per worker; distrain starts {here}: one for each GPU, or one on CPUs",
    )


def _mapped(draft: Draft, key: str, sign: str) -> dict[str, tuple[str, int]]:
    """Return value and index for each name in a repeated flag such as --env a=b --env c=d.

    `sign` separates the name from the value, like = here. A text that does not contain `sign` is reported as not
    imported.
    """
    found: dict[str, tuple[str, int]] = {}
    for index, each in enumerate(draft.ledger.get((key,), [])):
        name, has_sign, value = str(each).partition(sign)
        if has_sign:
            if name in found:
                draft.lose((key, found[name][1]), f"a later --{key} {quoting.key(name)} counts")
            found[name] = (value, index)
        else:
            draft.lose((key, index), f"it has no {sign}")
    return found


def _pods(draft: Draft, kind: str) -> None:
    roles = SECTIONS if kind == "TFJob" else {}
    for key, target in (
        ("selector", ("nodeSelector",)),
        ("label", ("podLabels",)),
        ("annotation", ("podAnnotations",)),
        *((f"{role}-selector", (section, "nodeSelector")) for role, section in roles.items()),
    ):
        if pairs := _mapped(draft, key, "="):
            values = {name: value for name, (value, _) in pairs.items()}
            draft.carry(target, values, *((key, index) for _, index in pairs.values()))
    pairs = _mapped(draft, "env", "=")
    for value, index in pairs.values():
        if re.search(r"[$`]", value):
            draft.lose(("env", index), "a shell made its value; set it in env")
    if pairs := {name: pair for name, pair in pairs.items() if not re.search(r"[$`]", pair[0])}:
        entries = [draft.credentials.env({"name": name, "value": value}) for name, (value, _) in pairs.items()]
        draft.carry(("env",), entries, *(("env", index) for _, index in pairs.values()))
    secrets = draft.ledger.get(("image-pull-secret",), [])
    if secrets:
        draft.carry(
            ("image", "pullSecrets"), secrets, *(("image-pull-secret", index) for index, _ in enumerate(secrets))
        )
    for key, name in (("priority", "priorityClassName"), ("scheduler", "schedulerName")):
        if draft.ledger.get((key,)):
            draft.carry((name,), draft.ledger.get((key,)), (key,))
    _volumes(draft)
    _tolerations(draft)
    host = [key for key in ("hostNetwork", "hostIPC") if draft.ledger.get((key,)) == "true"]
    for key in host:
        draft.carry(("podSpec", key), True, (key,))
    needs = [*host, *(["data-dir"] if draft.ledger.get(("data-dir",)) else [])]
    level, why = ("privileged", f"--{needs[0]}") if needs else ("baseline", "the source may run as root")
    draft.choose(("podSecurity",), level, why)


def _volumes(draft: Draft) -> None:
    volumes: list[Mapping[str, Any]] = []
    mounts: list[Mapping[str, Any]] = []
    paths = []
    for claim, (folder, index) in _mapped(draft, "data", ":").items():
        path, _, mode = folder.partition(":")
        volumes.append({"name": f"data-{index}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"data-{index}", "mountPath": path} | ({"readOnly": True} if mode == "ro" else {}))
        if mode not in ("", "ro", "rw"):
            draft.drop(
                f"data {quoting.value(f'{claim}:{folder}')}: {quoting.value(mode)}",
                "set readOnly or subPath of the mount in volumeMounts",
            )
        paths.append(("data", index))
    for index, each in enumerate(draft.ledger.get(("data-dir",), [])):
        source, _, folder = str(each).partition(":")
        volumes.append({"name": f"folder-{index}", "hostPath": {"path": source}})
        mounts.append({"name": f"folder-{index}", "mountPath": folder or source})
        paths.append(("data-dir", index))
    if volumes:
        draft.carry(("volumes",), volumes, *paths)
        draft.carry(("volumeMounts",), mounts, *paths)


def _tolerations(draft: Draft) -> None:
    """Set tolerations such as all, KEY, or KEY=VALUE:EFFECT,OPERATOR."""
    found = []
    for each in draft.ledger.get(("toleration",), []):
        taint, _, operator = str(each).partition(",")
        pair, _, effect = taint.partition(":")
        key, has_value, value = pair.partition("=")
        toleration = {"operator": operator or ("Equal" if has_value and value else "Exists")}
        toleration |= {} if each == "all" else {"key": key}
        toleration |= {"value": value} if toleration["operator"] == "Equal" else {}
        found.append(toleration | ({"effect": effect} if effect else {}))
    if found:
        draft.carry(("tolerations",), found, *(("toleration", index) for index, _ in enumerate(found)))


def _policy(draft: Draft, kind: str) -> None:
    policy = draft.ledger.get(("clean-task-policy",))
    if policy:
        draft.carry(("job", "cleanPodPolicy"), policy, ("clean-task-policy",))
    else:
        draft.choose(("job", "cleanPodPolicy"), CLEAN[kind], "arena's default")
    retry = str(draft.ledger.get(("retry",), ""))
    if retry.isdecimal():
        draft.carry(("job", "maxRestarts"), int(retry), ("retry",))
    for key, target in (
        ("running-timeout", "activeDeadlineSeconds"),
        ("ttl-after-finished", "ttlSecondsAfterFinished"),
    ):
        if seconds := _seconds(str(draft.ledger.get((key,), ""))):
            draft.carry(("job", target), seconds, (key,), why=quoting.value(draft.ledger.get((key,))))


def _seconds(text: str) -> int:
    """Return the seconds of a duration such as 2h22m."""
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def _command(draft: Draft) -> None:
    line = str(draft.ledger.get(("command",)))
    folder, shell = (str(draft.ledger.get((key,), usual)) for key, usual in (("working-dir", FOLDER), ("shell", "sh")))
    # arena runs the command in this folder, through a shell.
    given = {name: value for name, (value, _) in _mapped(draft, "env", "=").items()}
    carry_words(draft, [shell, "-c", f"cd {shlex.quote(folder)} && {line}"], "the last word", given)
    draft.know(("command",), ("working-dir",), ("shell",))
