"""Read the parameters of ksonnet's openmpi package: a `ks generate openmpi` line, or the block in params.libsonnet.

The parameters are those of kubeflow/openmpi in kubeflow/kubeflow v0.1 to v0.3: prototypes/openmpi.jsonnet,
workloads.libsonnet, README.md. The package's Secret with the SSH keys can be used as ssh.secretName, because both use
the keys id_rsa, id_rsa.pub and authorized_keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.credentials import hidden
from distrain.imports.draft import Draft
from distrain.imports.jobs.image import set_image
from distrain.imports.jobs.job_resource import release_name
from distrain.imports.jobs.resources import carry_resources
from distrain.imports.launch import shell
from distrain.imports.launch.carried import carry_line
from distrain.imports.ledger import Ledger
from distrain.imports.secrets import quoting
from distrain.values.placeholder import PROGRAM
from distrain.yaml import repeated_keys, yaml_loader

WORKERS, TIMEOUT = 4, 300
NOTHING = (None, "", "null")
GENERATE = re.compile(r"^\s*ks\s+generate\s", re.MULTILINE)
BLOCK = re.compile(r"^\s*\{.*\bcomponents\s*:\s*\{", re.DOTALL)
# Jsonnet's comments, quoted texts and text blocks.
JSONNET = re.compile(
    r"""//[^\n]*|\#[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\|\|\|\n.*?\n\s*\|\|\|""", re.DOTALL
)
COPIES = "distrain copies no data; use data.uri and output.uri, or an initContainer of the workers"
LEFT_OUT = {
    "init": "write it as an initContainer of the workers; the package ran it in each pod",
    "controllerImage": "distrain-launch, in the image of the workers, takes the place of the controller",
    "s3Secret": COPIES,
    "downloadDataFrom": COPIES,
    "downloadDataTo": COPIES,
    "uploadDataFrom": COPIES,
    "uploadDataTo": COPIES,
}
# Parameters of the package that distrain does not need.
KNOWN = ("name", "namespace")


def is_ksonnet(text: str) -> bool:
    if re.search(r"^apiVersion\s*:", text, re.MULTILINE):
        return False
    return bool(GENERATE.search(text) or BLOCK.match(_without_comments(text)))


def parameters(text: str, origin: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the parameters of the only openmpi component, and the file's other parts.

    Raise ValuesError if there is no such component.
    """
    return _of_lines(text, origin) if GENERATE.search(text) else _of_block(text, origin)


def read_ksonnet(data: dict[str, Any], origin: str) -> Draft:
    """Convert the parameters to values of the chart; raise ValuesError if the parameters name no image."""
    ledger = Ledger(data)
    draft = Draft(ledger, release_name(ledger.get(("name",))), origin=origin)
    draft.credentials.secret = f"{draft.name}-credentials"
    draft.namespace = str(ledger.get(("namespace",), "")) if ledger.get(("namespace",)) not in NOTHING else ""
    draft.know(*((key,) for key in KNOWN))
    draft.ledger.settle(*((key,) for key, value in data.items() if value in NOTHING))
    image = ledger.get(("image",))
    if image in NOTHING:
        raise ValuesError(f"{origin}: image: is missing; name the image there")
    draft.choose(("job", "kind"), "Plain", "the package makes pods and Services, without an operator")
    set_image(draft, str(image), ("image",))
    words = f"{image} {ledger.get(('exec',), '')}".lower()
    framework = "pytorch" if "torch" in words else "mxnet" if "mxnet" in words else "tensorflow"
    draft.choose(("framework",), framework, "image and exec")
    _size(draft, origin)
    _pods(draft)
    _exec(draft)
    for key, why in LEFT_OUT.items():
        draft.lose((key,), why)
    return draft


def _size(draft: Draft, origin: str) -> None:
    ledger = draft.ledger
    numbers = {}
    for key, default in (("workers", WORKERS), ("gpu", 0), ("initTimeout", TIMEOUT)):
        found = ledger.get((key,), default)
        if not str(found).isdecimal():
            raise ValuesError(f"{origin}: {key}: is {quoting.literal(found)}, but must be a whole number; correct it")
        numbers[key] = int(found)
    draft.carry(("workers", "replicas"), numbers["workers"], ("workers",))
    limits = {key: ledger.get((key,)) for key in ("cpu", "memory") if ledger.get((key,)) not in NOTHING}
    limits |= _pairs(draft, "customResources")
    # The package uses these parameters as resource limits of the workers.
    inner = Draft(Ledger({"limits": limits | ({"nvidia.com/gpu": numbers["gpu"]} if numbers["gpu"] else {})}), "")
    carry_resources(inner, "workers", ())
    sources = {"cpu": "cpu", "memory": "memory", "nvidia.com/gpu": "gpu"}
    for target, setting in inner.settings.items():
        names = [sources.get(name, "customResources") for name in limits if name == target[-1]]
        origins = names or [{"gpus": "gpu", "gpuResource": "customResources"}.get(target[-1], target[-1])]
        draft.choose(target, setting.value, origins[0])
    draft.notes += inner.notes
    draft.know(*((key,) for key in ("cpu", "memory", "gpu", "customResources")))
    draft.carry(("launcher", "workersTimeout"), numbers["initTimeout"], ("initTimeout",))


def _pairs(draft: Draft, key: str) -> dict[str, str]:
    """Return "name=value,name=value" as a map; a text of another form is listed as left out."""
    found = draft.ledger.get((key,))
    parts = [part.strip() for part in str("" if found in NOTHING else found).split(",") if part.strip()]
    if not all("=" in part for part in parts):
        draft.lose((key,), "write it as name=value,name=value")
        return {}
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def _pods(draft: Draft) -> None:
    ledger = draft.ledger
    if (secret := ledger.get(("secret",))) not in NOTHING:
        draft.carry(("ssh", "secretName"), secret, ("secret",))
    if selector := _pairs(draft, "nodeSelector"):
        draft.carry(("workers", "nodeSelector"), selector, ("nodeSelector",))
    if (scheduler := ledger.get(("schedulerName",))) not in (*NOTHING, "default-scheduler"):
        draft.carry(("schedulerName",), scheduler, ("schedulerName",))
    draft.know(("schedulerName",))
    for key, target in (("imagePullPolicy", ("image", "pullPolicy")), ("serviceAccountName", ("serviceAccountName",))):
        if ledger.get((key,)) not in NOTHING:
            draft.carry(target, ledger.get((key,)), (key,))
    secrets = ledger.get(("imagePullSecrets",))
    if secrets not in (*NOTHING, []):
        names = secrets if isinstance(secrets, list) else [each.strip() for each in str(secrets).split(",")]
        plain = [each.get("name") if isinstance(each, dict) else each for each in names]
        draft.carry(("image", "pullSecrets"), plain, ("imagePullSecrets",))
    for key in ("volumes", "volumeMounts"):
        if items := _blocks(draft, key):
            paths = (
                [(key, index) for index, _ in enumerate(items)] if isinstance(ledger.get((key,)), list) else [(key,)]
            )
            draft.carry((key,), items, *paths)
    _security(draft)


def _blocks(draft: Draft, key: str) -> list[dict[str, Any]]:
    """Return a parameter that is a list of mappings, or JSON text of such a list in a `ks generate` line.

    List a value of any other form as left out.
    """
    found = draft.ledger.get((key,))
    if isinstance(found, str):
        try:
            found = yaml_loader.load(found)
        except yaml_loader.NotYamlError:
            found = None
    if isinstance(found, list) and all(isinstance(each, dict) for each in found):
        return found
    draft.lose((key,), f"it is not a list of mappings; set {key}")
    return []


def _security(draft: Draft) -> None:
    ledger = draft.ledger
    is_host = str(ledger.get(("useHostNetwork",), "false")).lower() == "true"
    if is_host:
        draft.carry(("podSpec", "hostNetwork"), True, ("useHostNetwork",))
        draft.note("useHostNetwork: sshd listened on port 2022 of the nodes, and listens on ssh.port, 2222, here")
    draft.know(("useHostNetwork",))
    level, why = ("privileged", "useHostNetwork") if is_host else ("baseline", "the package's pods run as root")
    draft.choose(("podSecurity",), level, why)
    for key, target in (
        ("runAsUser", ("runAsUser",)),
        ("runAsGroup", ("securityContext", "runAsGroup")),
        ("supplementalGroups", ("securityContext", "supplementalGroups")),
    ):
        found = ledger.get((key,))
        if found in (*NOTHING, []):
            continue
        numbers = [int(each) for each in re.findall(r"\d+", str(found))]
        draft.carry(target, numbers if key == "supplementalGroups" else numbers[0] if numbers else found, (key,))


def _exec(draft: Draft) -> None:
    line = draft.ledger.get(("exec",))
    if line in NOTHING:
        draft.choose(("command",), [PROGRAM], "exec is not set: the master sleeps")
        draft.note(
            f"exec: is not set, so the master only sleeps; write the program of the ranks in the place of {PROGRAM}"
        )
    else:
        carry_line(draft, str(line), ("exec",))


def _without_comments(text: str) -> str:
    return JSONNET.sub(lambda found: "" if found[0].startswith(("//", "#", "/*")) else found[0], text)


def _of_block(text: str, origin: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    text = JSONNET.sub(_as_yaml, text)
    try:
        found = yaml_loader.load(text)
    except yaml_loader.NotYamlError as error:
        raise ValuesError(f"{origin}: {error}; Jsonnet code cannot be read: write out the values") from error
    if repeated := repeated_keys.mistakes(text):
        raise ValuesError(*(f"{origin}: {hidden(mistake)}" for mistake in repeated))
    components = Ledger(found).get(("components",), {})
    named = (
        {name: each for name, each in components.items() if isinstance(each, dict)}
        if isinstance(components, dict)
        else {}
    )
    openmpi = {name: each for name, each in named.items() if {"image", "secret"} <= set(each)}
    if len(openmpi) != 1:
        finding = f"found {', '.join(map(quoting.key, openmpi or named)) or 'none'}"
        raise ValuesError(f"{origin}: components: {finding}; keep only the component of `ks generate openmpi`")
    [(name, block)] = openmpi.items()
    others = [(f"components.{quoting.key(each)}", "it is no component of openmpi") for each in named if each != name]
    return {"name": name, **block}, others


def _as_yaml(found: re.Match[str]) -> str:
    """Remove a comment, and convert a text block to a quoted text."""
    word = found[0]
    if word.startswith(("//", "#", "/*")):
        return "\n" * word.count("\n")
    if word.startswith("'"):
        return '"' + word[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
    if word.startswith("|||"):
        lines = [line.strip() for line in word.split("\n")[1:-1]]
        # Each remaining value keeps its line number, so that messages can name the line.
        return '"' + "\\n".join(lines).replace('"', '\\"') + '"' + "\n" * word.count("\n")
    return word


def _of_lines(text: str, origin: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    commands = shell.commands(text)
    if commands is None:
        raise ValuesError(
            f"{origin}: contains an unclosed quote or a loop; keep only the line `ks generate openmpi ...`"
        )
    variables: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    others: list[tuple[str, str]] = []
    for command in commands:
        words = [_expanded(word.text, variables) for word in command.words]
        name, sign, value = words[0].partition("=")
        if sign and re.fullmatch(r"\w+", name) and len(words) == 1:
            variables[name] = value
        elif words[:2] == ["ks", "generate"] and words[2:3] and words[2].endswith("openmpi"):
            flags = [*_flags(words[4:])]
            found.append({"name": words[3] if len(words) > 3 else "", **dict(flags)})
            names = [name for name, _ in flags]
            twice = dict.fromkeys(name for index, name in enumerate(names) if name in names[:index])
            others += [(f"--{name}", "it is there again later, and the last counts") for name in twice]
        elif words[:3] == ["ks", "param", "set"] and found and len(words) >= 6:
            found[-1][words[4]] = words[5]
        else:
            others.append((quoting.command(words), "no value follows from it"))
    if len(found) != 1:
        finding = f"has {len(found)} lines `ks generate openmpi`"
        raise ValuesError(f"{origin}: {finding}; only one run is read: keep one line")
    return found[0], others


def _expanded(word: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], found[0]), word)


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(words):
        if not words[place].startswith("-"):
            yield "other-words", words[place]
            place += 1
            continue
        name, sign, value = words[place].removeprefix("--").partition("=")
        if not sign and place + 1 < len(words) and not words[place + 1].startswith("--"):
            value = words[place + 1]
            place += 1
        yield name, value
        place += 1
