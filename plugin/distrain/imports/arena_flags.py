"""Read the flags of a command line of arena: `arena submit mpijob|pytorchjob|tfjob`.

The flags are those of kubeflow/arena 0.9 to 0.15: pkg/argsbuilder/submit.go, submit_mpijob.go, submit_pytorchjob.go,
submit_tfjob.go, submit_sync_code.go and submit_tensorboard.go. The flags that all arena commands accept are in
pkg/commands/root.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from distrain.errors import ValuesError
from distrain.imports.launch import shell
from distrain.imports.secrets import quoting

SUBMIT = re.compile(r"^\s*(?:\$\s*)?arena\s+submit\s", re.MULTILINE)
KINDS = {
    "mpijob": "MPIJob",
    "mpi": "MPIJob",
    "pytorchjob": "PyTorchJob",
    "pytorch": "PyTorchJob",
    "tfjob": "TFJob",
    "tf": "TFJob",
}
SHORT = {"e": "env", "d": "data", "a": "annotation", "l": "label", "p": "priority", "n": "namespace"}
# Flags that only `arena submit tfjob` has. TFJOB_MANY are repeatable flags, TFJOB_ALONE are flags without a value, and
# TFJOB_ONE are all others.
TFJOB_MANY = {"worker-selector", "ps-selector", "chief-selector", "evaluator-selector"}
TFJOB_ALONE = {"chief", "evaluator"}
TFJOB_ONE = {
    *("ps", "ps-gpus", "success-policy", "role-sequence", "starting-timeout"),
    *("worker-image", "ps-image", "worker-port", "ps-port", "chief-port"),
    *(
        f"{role}-{amount}{limit}"
        for role in ("worker", "ps", "chief", "evaluator")
        for amount in ("cpu", "memory")
        for limit in ("", "-limit")
    ),
}
TFJOB = TFJOB_MANY | TFJOB_ALONE | TFJOB_ONE
MANY = {
    *("env", "data", "data-dir", "annotation", "label", "toleration", "selector", "config-file", "image-pull-secret"),
    *TFJOB_MANY,
}
# Flags without a value. arena's own help writes such a flag as `--hostNetwork true`.
ALONE = {
    *("rdma", "gang", "queue", "hostNetwork", "hostIPC", "hostPID", "gputopology", "mounts-on-launcher"),
    *("tensorboard", "pprof", "trace"),
    *TFJOB_ALONE,
}
ONE = {
    *("name", "namespace", "image", "gpus", "workers", "retry", "working-dir", "shell", "scheduler", "priority", "cpu"),
    *("memory", "clean-task-policy", "running-timeout", "ttl-after-finished", "share-memory", "nproc-per-node"),
    *("sync-mode", "sync-source", "sync-image", "logdir", "tensorboard-image", "loglevel", "config"),
    *("arena-namespace", *TFJOB_ONE),
}
FLAGS = MANY | ALONE | ONE
WITHOUT_DASHES = {flag.replace("-", "").lower(): flag for flag in sorted(FLAGS)}


def is_arena(text: str) -> bool:
    return bool(SUBMIT.search(text)) and not re.search(r"^apiVersion\s*:", text, re.MULTILINE)


def flags_of(text: str, origin: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the flags of the only `arena submit` line, and the other lines.

    Raise ValuesError if there is no such line, or several.
    """
    commands = shell.commands(SUBMIT.sub("arena submit ", text))
    if commands is None:
        raise ValuesError(f"{origin}: contains an unclosed quote or a loop; keep only the line `arena submit ...`")
    lines = [[word.text for word in command.words] for command in commands]
    found = [words for words in lines if words[:2] == ["arena", "submit"]]
    others = [
        (quoting.command(words), "no value follows from it") for words in lines if words[:2] != ["arena", "submit"]
    ]
    if len(found) != 1:
        raise ValuesError(f"{origin}: has {len(found)} lines `arena submit`; only one run is read: keep one line")
    kind = found[0][2] if len(found[0]) > 2 else ""
    if kind not in KINDS:
        step = f"use one of {', '.join(KINDS)}"
        raise ValuesError(f"{origin}: arena submit {quoting.value(kind)}: cannot be imported; {step}")
    flags, repeated = _flags(found[0][3:])
    return {"kind": KINDS[kind], **flags}, [*others, *repeated]


def _flags(words: Sequence[str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the flags that arena uses, and the flags that a later flag of the same name overrides."""
    found: dict[str, Any] = {}
    repeated = []
    for name, value in _pairs(words):
        if name in MANY:
            found.setdefault(name, []).append(value)
            continue
        if name in found:
            repeated.append((f"--{name}", "it is there again later, and the last counts"))
        found[name] = value
    return found, repeated


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each flag.

    The words of the program come last: joined with spaces, as arena joins them, they are the value of a flag `command`.
    """
    place, program = 0, list[str]()
    while place < len(words):
        word = words[place]
        place += 1
        if word == "--":
            program += words[place:]
            break
        if not word.startswith("-"):
            program.append(word)
            continue
        name, sign, value = word.lstrip("-").partition("=")
        name = _full_name(name)
        if not sign and _has_value(name, words[place : place + 1]):
            value = words[place]
            place += 1
        yield name, value or ("true" if name in ALONE or not sign else "")
    if program:
        yield "command", " ".join(program)


def _full_name(name: str) -> str:
    """Return a flag's current name for its short form, or for an older name such as workingDir.

    Return any other name unchanged.
    """
    if name in FLAGS:
        return name
    return SHORT.get(name) or WITHOUT_DASHES.get(name.replace("-", "").lower(), name)


def _has_value(name: str, following: Sequence[str]) -> bool:
    """Tell whether the next word is the flag's value.

    After an unknown flag, a word that begins with a dash is the next flag and not the value.
    """
    if not following:
        return False
    if name in ALONE:
        return following[0] in ("true", "false")
    return name in FLAGS or not following[0].startswith("-")
