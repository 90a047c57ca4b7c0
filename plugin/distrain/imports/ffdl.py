"""Read a manifest of FfDL (IBM's Fabric for Deep Learning).

The format is that of docs/user-guide.md and etc/examples in IBM/FfDL.
"""

from __future__ import annotations

import re
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.draft import Draft
from distrain.imports.jobs.image import set_image
from distrain.imports.jobs.job_resource import release_name
from distrain.imports.launch.carried import carry_line
from distrain.imports.ledger import Ledger, Path
from distrain.imports.secrets import quoting

# The image that FfDL runs for each framework; framework.version is the tag. For `custom`, the manifest names the image.
IMAGES = {
    "tensorflow": "tensorflow/tensorflow",
    "horovod": "uber/horovod",
    "pytorch": "pytorch/pytorch",
    "custom": "",
}
# These fields name an image in the user's own registry. The import leaves them out, and says what to set instead.
IMAGE_PARTS: dict[Path, str] = {
    ("image_tag",): "set image.tag",
    ("image_location", "registry"): "set image.repository",
    ("image_location", "namespace"): "set image.repository",
    ("image_location", "access_token"): "name a Secret in image.pullSecrets",
    ("image_location", "email"): "name a Secret in image.pullSecrets",
}
# If the manifest does not set the CPUs and memory of a learner, FfDL uses these defaults (docs/user-guide.md, section
# 2.4).
CPUS, MEMORY = 8, "60G"
MEMORY_TEXT = re.compile(r"([0-9.]+)\s*([KMGT]?)(i?)[bB]?")
# The keys of the Secret that s3.secretName names.
S3_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
COS, MOUNT = "mount_cos", "mount_volume"
# Variables that FfDL sets in each learner.
VARIABLES = re.compile(r"\$\{?(DATA_DIR|RESULT_DIR|MODEL_DIR|LEARNER_ID|NUM_LEARNERS|JOB_STATE_DIR|LOG_DIR)\b")
DATA_DIR, RESULT_DIR = "DATA_DIR", "RESULT_DIR"
FOLDERS = (
    "DATA_DIR, RESULT_DIR: FfDL mounted the buckets as folders; here they hold the URIs data.uri and output.uri, "
    "and AWS_* has the login to S3. Without command, distrain's own trainer reads and writes these URIs"
)


def is_manifest(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("framework"), dict) and "kind" not in data


def read_ffdl(data: dict[str, Any], origin: str) -> Draft:
    """Convert a manifest to values of the chart; raise ValuesError if distrain cannot run its framework."""
    ledger = Ledger(data)
    draft = Draft(ledger, release_name(ledger.get(("name",))), origin=origin)
    draft.credentials.secret = f"{draft.name}-s3"
    draft.know(("name",))
    draft.lose(("description",), "write it into commonAnnotations")
    draft.lose(("version",), "it is the manifest's own version; write it into commonLabels")
    _framework(draft, origin)
    _size(draft, origin)
    _stores(draft, origin)
    _command(draft, origin)
    for path, why in IMAGE_PARTS.items():
        draft.lose(("framework", *path), why)
    if not draft.has(("podSecurity",)):
        draft.choose(("podSecurity",), "baseline", "FfDL's learners run as root")
    draft.lose(("evaluation_metrics",), "distrain reads no events of a program of your own")
    return draft


def _framework(draft: Draft, origin: str) -> None:
    name = str(draft.ledger.get(("framework", "name"), ""))
    version = str(draft.ledger.get(("framework", "version"), "latest"))
    if name not in IMAGES:
        words = (
            f"framework.name: is {quoting.value(name) if name else 'missing'}, and distrain runs "
            f"{', '.join(IMAGES)}; change it"
        )
        raise ValuesError(f"{origin}: {words}")
    words = f"{version} {draft.ledger.get(('framework', 'command'), '')}".lower()
    framework = "pytorch" if name == "pytorch" or ("torch" in words and name == "custom") else "tensorflow"
    if name == "horovod" and "pytorch" in words:
        framework = "pytorch"
    draft.know(("framework", "name"))
    named = f"{framework} in framework.version or framework.command" if framework in words else "nothing names another"
    draft.choose(
        ("framework",), framework, "framework.name" if name == framework else f"framework.name: {name}; {named}"
    )
    if name == "tensorflow" and draft.ledger.get(("learners",), 1) != 1:
        draft.note(
            "framework.name: FfDL's learners found each other by variables; here mpirun starts them, for Horovod"
        )
    if framework == "pytorch" and name == "horovod":
        draft.choose(("job", "kind"), "MPIJob", "framework.name: horovod")
    elif framework == "pytorch":
        draft.choose(("job", "elastic"), False, "the number of learners is fixed")
    set_image(draft, version if name == "custom" else f"{IMAGES[name]}:{version}", ("framework", "version"))


def _size(draft: Draft, origin: str) -> None:
    learners, gpus = (_number(draft, key, default, origin) for key, default in (("learners", 1), ("gpus", 0)))
    draft.carry(("workers", "replicas"), learners, ("learners",))
    draft.carry(("workers", "gpus"), gpus, ("gpus",))
    if gpus > 1:
        draft.note(f"gpus: FfDL ran one process for the {gpus} GPUs of a learner; here a rank runs for each GPU")
    cpus, memory = draft.ledger.get(("cpus",)), draft.ledger.get(("memory",))
    if cpus is None:
        draft.choose(("workers", "cpu"), CPUS, "FfDL's default for cpus")
    else:
        draft.carry(("workers", "cpu"), cpus, ("cpus",))
    if memory is None:
        draft.choose(("workers", "memory"), MEMORY, "FfDL's default for memory")
    else:
        draft.carry(("workers", "memory"), _memory(memory), ("memory",), why=quoting.value(memory))


def _number(draft: Draft, key: str, default: int, origin: str) -> int:
    found = draft.ledger.get((key,), default)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValuesError(f"{origin}: {key}: is {quoting.literal(found)}, but must be a whole number; correct it")
    return found


def _memory(amount: Any) -> Any:
    """Return an amount such as 1Gb or 512MiB as Kubernetes writes it: 1G, 512Mi."""
    found = MEMORY_TEXT.fullmatch(str(amount).strip())
    return f"{found[1]}{found[2].replace('K', 'k') if not found[3] else found[2]}{found[3]}" if found else amount


def _stores(draft: Draft, origin: str) -> None:
    stores = draft.ledger.get(("data_stores",), [])
    if not isinstance(stores, list) or not all(isinstance(each, dict) for each in stores):
        raise ValuesError(f"{origin}: data_stores: must be a list of mappings; correct it there")
    for index, _ in enumerate(stores):
        path: Path = ("data_stores", index)
        if index:
            draft.lose(path, "data.uri and output.uri name one store each; the first is taken")
        else:
            _store(draft, path)


def _store(draft: Draft, path: Path) -> None:
    kind = draft.ledger.get((*path, "type"), COS)
    draft.know((*path, "id"), (*path, "type"), (*path, "connection", "type"))
    if kind == MOUNT:
        base = _mounted(draft, path)
    elif kind in (COS, "s3_datastore"):
        base = "s3://"
        _connection(draft, (*path, "connection"))
    else:
        draft.lose(path, f"a store of type {quoting.value(kind)}; distrain reads S3 and volumes")
        return
    for key, target, variable in (
        ("training_data", ("data", "uri"), DATA_DIR),
        ("training_results", ("output", "uri"), RESULT_DIR),
    ):
        place = (*path, key, "container")
        bucket = draft.ledger.get(place)
        if bucket:
            draft.carry(target, f"{base}{bucket}", place)
            draft.append(("env",), [{"name": variable, "value": f"{base}{bucket}"}], f"FfDL set {variable}")


def _mounted(draft: Draft, path: Path) -> str:
    """Mount the same folder of the node as FfDL does, and return the folder's path in the pods."""
    folder = str(draft.ledger.get((*path, "connection", "path"), "")).rstrip("/")
    place = (*path, "connection", "path")
    draft.know((*path, "connection", "name"))
    draft.carry(("volumes",), [{"name": "data", "hostPath": {"path": folder or "/"}}], place)
    draft.carry(("volumeMounts",), [{"name": "data", "mountPath": folder or "/data"}], place)
    draft.choose(("podSecurity",), "privileged", "the folder of the node")
    return f"{folder or '/data'}/"


def _connection(draft: Draft, path: Path) -> None:
    """Carry over the server. User and password are left out, and s3.secretName names the Secret that must hold them."""
    ledger = draft.ledger
    if url := ledger.get((*path, "auth_url")):
        draft.carry(("s3", "endpoint"), url, (*path, "auth_url"))
    if region := ledger.get((*path, "region")):
        draft.carry(("s3", "region"), region, (*path, "region"))
    user, password = (*path, "user_name"), (*path, "password")
    if ledger.get(user) is not None or ledger.get(password) is not None:
        for key, place in zip(S3_KEYS, (user, password), strict=True):
            draft.credentials.key(key, str(ledger.get(place, "")))
        draft.carry(("s3", "secretName"), draft.credentials.secret, user, password, why="left out, for the Secret")


def _command(draft: Draft, origin: str) -> None:
    path = ("framework", "command")
    line = draft.ledger.get(path)
    if not isinstance(line, str) or not line.strip():
        raise ValuesError(f"{origin}: framework.command: is missing; write the program of the learners there")
    carry_line(draft, " ".join(line.split()) if "\n" not in line.strip() else line.strip(), path)
    used = sorted({found[1] for found in VARIABLES.finditer(line)})
    draft.note("framework.command: FfDL unpacked the model's zip into each learner; put its files into the image")
    if {DATA_DIR, RESULT_DIR} & set(used):
        draft.note(FOLDERS)
