"""Create random broken inputs for the program. The same seed gives the same input.

Each input starts as a valid input: real values files, manifests, snapshots, kubeconfigs, arguments, variables, and
answers of an API server. In each input, one part is broken. `KINDS` maps the name of this part to the function that
breaks it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

from lab.paths import REPOSITORY
from tests.plugin.check.random_clusters import random_case
from tests.plugin.inputs.mutations import as_json, as_yaml, broken_file, broken_object, broken_text
from tests.plugin.objects import mpi_job, node, pod

Object = dict[str, Any]
# SERVER is replaced by the fake server's address.
SERVER = "SERVER"
GOOD = {"job.yaml": as_yaml(mpi_job()), "snapshot.json": as_json({"items": [{"kind": "Node", **node("a", gpu="16")}]})}
CHECK = ("check", "--manifest", "job.yaml")
INIT = ("init", "--framework", "pytorch", "--model", "mnist")
OFFLINE = ("--offline", "--assume-nodes", "4x8")


@dataclass(frozen=True)
class Input:
    """The arguments, files, environment variables and stdin of one call of the program.

    `spoiled` is a function that changes the status and body of the fake server's answers.
    """

    arguments: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    spoiled: Callable[[str, int, bytes], tuple[int, bytes]] | None = None

    def __str__(self) -> str:
        """Return a description with which a developer can repeat the call by hand."""
        parts = [f"distrain {self.arguments}", *(f"{key}={value!r}" for key, value in self.environment.items())]
        files = {**self.files, **({"stdin": self.stdin} if self.stdin else {})}
        changed = {name: content for name, content in files.items() if GOOD.get(name) != content}
        return "\n".join([*parts, *(f"{name}: {content[:3000]!r}" for name, content in changed.items())])


def random_input(seed: int, kind: str | None = None) -> Input:
    random = Random(seed)
    return KINDS[kind or kind_of(seed)](random)


def kind_of(seed: int) -> str:
    return TURNS[seed % len(TURNS)]


def _manifest(random: Random) -> Input:
    documents = random.choice([*_manifests(), random_case(random.randrange(10_000)).gang])
    content = broken_file(random, documents, lambda found: as_yaml(*(found if isinstance(found, list) else [found])))
    ending = random.choice([[], ["-o", "json"], ["--why", "assumed-1-1"]])
    if random.random() < 0.2:
        return Input(["check", "--manifest", "-", *OFFLINE, *ending], stdin=content)
    nodes = OFFLINE if random.random() < 0.5 else ("--snapshot", "snapshot.json")
    return Input([*CHECK, *nodes, *ending], {**GOOD, "job.yaml": content})


def _snapshot(random: Random) -> Input:
    case = random_case(random.randrange(10_000))
    content = broken_file(random, {"kind": "List", "items": case.items}, as_json)
    files = {"job.yaml": case.manifest.encode() if random.random() < 0.7 else GOOD["job.yaml"]}
    if random.random() < 0.2:
        return Input([*CHECK, "--snapshot", "-"], files, stdin=content)
    return Input([*CHECK, "--snapshot", "snapshot.json"], {**files, "snapshot.json": content})


def _kubeconfig(random: Random) -> Input:
    content = broken_file(random, _config(random), as_yaml).replace(SERVER.encode(), b"SERVER")
    command = random.choice([*[CHECK] * 10, ("doctor",), ("doctor",), INIT])
    return Input([*command], {**GOOD, "config": content}, {"KUBECONFIG": "config"})


def _config(random: Random) -> Object:
    """Return a kubeconfig. Often, it contains fields that few users set."""
    cluster: Object = {"server": SERVER}
    users: list[Object] = [
        {"token": "a-token"},
        {"username": "jane", "password": "a-password"},
        {"client-certificate-data": "YQ==", "client-key-data": "YQ=="},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin.sh", "args": ["a"], "env": []}},
        {"auth-provider": {"name": "oidc", "config": {"id-token": "a.b.c"}}},
        {"tokenFile": "job.yaml", "as": "jane", "as-groups": ["a"], "as-user-extra": {"k": ["v"]}},
    ]
    if random.random() < 0.4:
        more = {"proxy-url": "http://127.0.0.1:1", "tls-server-name": "a", "certificate-authority-data": "YQ=="}
        cluster |= {**more, "insecure-skip-tls-verify": False, "certificate-authority": "ca.crt", "extensions": []}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "preferences": {},
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": random.choice(users)}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
    }


def _answers(random: Random) -> Input:
    command = random.choice([*[CHECK] * 10, ("doctor",), ("doctor",), INIT])
    share, seed = random.choice([0.2, 0.5, 1]), random.randrange(2**32)

    def spoiled(path: str, status: int, body: bytes) -> tuple[int, bytes]:
        # Each path has its own random generator, so the order of the requests does not change the answers.
        own = Random(f"{seed} {path}")
        if own.random() > share:
            return status, body
        if own.random() < 0.2:
            status = own.choice([200, 204, 301, 302, 400, 401, 403, 404, 410, 418, 429, 500, 503, 599])
        if own.random() < 0.7:
            return status, as_json(broken_object(own, json.loads(body)))
        return status, broken_text(own, body)

    return Input([*command], {**GOOD, "config": as_yaml(_config(Random(0)))}, {"KUBECONFIG": "config"}, spoiled=spoiled)


def _arguments(random: Random) -> Input:
    words = [*random.choice(COMMANDS)]
    for _ in range(random.choice([1, 1, 2, 4])):
        place = random.randrange(len(words) + 1)
        word = random.choice([*FLAGS, *WORDS])
        if random.random() < 0.3 and place < len(words):
            word = f"{words[place]}{random.choice(['=', 's', '=x', '='])}"
        words[place : place + random.choice([0, 0, 1])] = [word]
    # For this kind of input, HELM_BIN names no program, because running Helm would take too long. Inputs of other kinds
    # run the real Helm.
    return Input(words, GOOD, {"HELM_BIN": "/nowhere/helm"}, stdin=random.choice([b"", b"x: y", b"[1]"]))


def _environment(random: Random) -> Input:
    names = random.sample(VARIABLES, random.choice([1, 1, 2, 3]))
    environment = {"KUBECONFIG": "config", **{name: random.choice(TEXTS) for name in names}}
    return Input([*CHECK], {**GOOD, "config": as_yaml(_config(Random(0)))}, environment)


def _values(random: Random) -> Input:
    content = broken_file(random, random.choice(_values_files()), as_yaml)
    if random.random() < 0.4:
        content = broken_text(random, random.choice(_values_texts()))
    command = random.choice(
        [
            ["derive", "--node-gpus", "8"],
            ["check", *OFFLINE],
            ["template", "--offline", "--node-gpus", "8"],
            ["cluster"],
            ["predict", "--rate", "100"],
        ]
    )
    name = random.choice(["values.yaml", "-"])
    files = {"values.yaml": content} if name != "-" else {}
    return Input([*command, "-f", name], files, stdin=b"" if files else content)


def _settings(random: Random) -> Input:
    flags = []
    for _ in range(random.choice([1, 1, 2, 3])):
        flag = random.choice(["--set", "--set", "--set-string", "--set-json", "--set-file", "--set-literal", "-f"])
        setting = (
            random.choice(SETTINGS) if random.random() < 0.7 else f"{random.choice(SETTINGS)}{random.choice(TEXTS)}"
        )
        flags += [flag, setting.replace("\0", "")]
    return Input(["check", *OFFLINE, *flags], GOOD)


@functools.cache
def _manifests() -> list[list[Any]]:
    folder = REPOSITORY / "tests" / "chart" / "golden"
    return [list(yaml.safe_load_all(path.read_text())) for path in sorted(folder.glob("*job*.yaml"))] + [[mpi_job()]]


@functools.cache
def _values_files() -> list[Any]:
    return [yaml.safe_load(text) for text in _values_texts()]


@functools.cache
def _values_texts() -> list[bytes]:
    return [path.read_bytes() for path in sorted((REPOSITORY / "values").glob("*.yaml"))]


def served() -> dict[str, Any]:
    """Return the correct answers of the fake server. `spoiled` may change them."""
    return {"/api/v1/nodes": [node("a", gpu="16")], "/api/v1/pods": [pod("p", on="a", gpu="1")]} | {
        f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")
    }


COMMANDS = [
    *(("check", *OFFLINE), (*CHECK, *OFFLINE), (*CHECK, "--snapshot", "snapshot.json")),
    *(("derive", "--node-gpus", "8"), ("install", "run1"), ("upgrade", "run1"), ("rescale", "run1", "--gpus", "4")),
    *(("doctor",), ("completion", "bash"), ("init", "--framework", "pytorch", "--model", "mnist")),
    *(("template", "--offline"), ("help",), (), ("--version",)),
    *(("cluster", "--set", "workers.gpus=8"), ("derive", "--instance", "p5.48xlarge")),
    *(("predict", "--rate", "100"), ("predict", "--record", "./run1", "--test", "test.log")),
]
FLAGS = [
    *("-f", "--values", "--set", "--manifest", "--snapshot", "--why", "--release", "-o", "--output", "--gpus"),
    *("--help", "--chart", "--timeout", "--node-gpus", "--assume-nodes", "--offline", "--namespace", "-n"),
    *("--kube-context", "--kubeconfig", "--request-timeout", "--framework", "--model", "--kind", "--data"),
    *("--strategy", "--wait", "--nope", "--yes", "--dry-run", "--force", "--check", "--allow-busy", "--", "-", "---"),
    *("-x", "__complete", "-h", "--instance", "--provider", "--prices", "--zone", "--region", "--efa"),
    *("--rate", "--between", "--within", "--latency", "--bucket", "--max-workers", "--max-hours", "--record", "--test"),
]
TEXTS = [
    *("", " ", "x", "é", "tëam", "team a", "../a", "a/b?c", "-1", "0", "8", "99999", "1h", "NaN", "9" * 400, "a\nb"),
    *("\x1b[1m", "job.yaml", "nothing.yaml", "/", "/dev/null", ".", "job.yaml,job.yaml", "4x8", "0x0", "4x", "x8"),
    *("99999x9999:a", "4x8:cpu=x", "https://[::1", "https://127.0.0.1:99999", "http://127.0.0.1:abc"),
    *("https://jane:pass@", "ftp://a", "\udcff", "a=b=c", "{", "[1", "true", "null", "module:", ":", "s3://"),
    *("s3://é/x", "json", "*", "%s", "$HOME", "~", "x" * 3000),
]
WORDS = TEXTS
VARIABLES = [
    *("KUBECONFIG", "HELM_NAMESPACE", "HELM_KUBECONTEXT", "HELM_KUBEAPISERVER", "HELM_KUBEASUSER"),
    *("HELM_KUBEASGROUPS", "HELM_KUBECAFILE", "HELM_KUBETOKEN", "HELM_KUBETLS_SERVER_NAME"),
    *("HELM_KUBEINSECURE_SKIP_TLS_VERIFY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "HELM_BIN", "HELM_PLUGIN_NAME"),
    *("HOME", "COLUMNS", "KUBERNETES_SERVICE_HOST", "TMPDIR", "KUBERNETES_SERVICE_PORT", "HELM_DEBUG", "LANG"),
    *("LC_ALL",),
]
SETTINGS = [
    *("workers.replicas=2", "workers.gpus=8", "gpus=16", "workers", "=", "a", ",", "workers.replicas"),
    *("workers[0]=1", "é=1", "workers[99999999]=1", "env[0].name=A", "env[a]=1", "trainer.model={a,b}", "workers={"),
    *("job=null", "x={", "workers.=1", 'env=[{"name": "N"}]', "env={", "data.uri=nothing.yaml", "data.uri=job.yaml"),
    *("trainer.batchSize=1.5", "job.kind=Plain", "nothing.yaml", "job.yaml", "/", "snapshot.json", "a.b.c.d.e=1"),
    *("workers.shm=2Gi,workers.cpu", "global=1", "\\", "a\\.b=1"),
]
KINDS: dict[str, Callable[[Random], Input]] = {
    "manifest": _manifest,
    "snapshot": _snapshot,
    "kubeconfig": _kubeconfig,
    "answers": _answers,
    "arguments": _arguments,
    "environment": _environment,
    "values": _values,
    "settings": _settings,
}
# Consecutive seeds create inputs of these kinds, in this order. A kind that is listed more often gets more of the
# seeds.
TURNS = (
    *("manifest", "snapshot", "kubeconfig", "manifest", "answers", "snapshot", "arguments", "manifest", "kubeconfig"),
    *("snapshot", "manifest", "answers", "values", "manifest", "snapshot", "kubeconfig", "arguments", "manifest"),
    *("environment", "snapshot", "manifest", "answers", "settings", "kubeconfig", "manifest"),
)


def write(given: Input, folder: Path, server: str) -> None:
    """Write the input's files. Replace SERVER by the fake server's address."""
    for name, content in given.files.items():
        (folder / name).write_bytes(content.replace(SERVER.encode(), server.encode()))
