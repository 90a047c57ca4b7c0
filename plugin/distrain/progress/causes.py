"""Shorten messages of kubelet and the container runtime to their cause, and tell whether another pod is the cause."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

# runc's message about a program that it cannot start. It is the container's only output, or the end of a chain of
# messages.
EXEC = re.compile(r'(?:^|: )exec:? "?(?P<program>[^\s":]+)"?: (?P<why>.*?)(?:: unknown)?$')
# `env` prints this if the image has no Python. The first line of the chart's scripts is #!/usr/bin/env python3.
ENV = re.compile(r"^(?:\S*/)?env: .*(?P<program>python3)\W+(?P<why>No such file or directory)$")
# The folder of the chart's scripts in every pod.
SCRIPTS = "/opt/distrain/"
MISSING = re.compile(r"no such file or directory|not found", re.IGNORECASE)
WRONG_PLATFORM = "no match for platform"
# What distrain's scripts and the trainer print if another pod, a node or the network has failed first.
OF_OTHERS = re.compile(
    r"no sign of |the ranks have lost each other|the connection to another process broke|no step was made for"
    r"|signal \d+ killed it|the earlier launcher was lost without SIGTERM|.*; see its log, and its pod's events$"
)
# The scripts' message contains this part if the scripts know only the exit code of the program.
SEE_LOG = "; this pod's log says why"
SEE_MEMORY = "; see workers.memory"


class Cause(Struct, frozen=True):
    """Why a pod or a job does not continue (`why`), and what the user should do (`next`)."""

    why: str
    next: str

    @property
    def words(self) -> str:
        return f"{self.why}; {self.next}"


# One rule consists of a pattern of messages, the cause, and what the user should do. The pattern's named groups are
# filled into the other two texts.
Rules = Iterable[tuple[str, str, str]]


def by_rules(rules: Rules, message: str, **parts: str) -> Cause | None:
    """Return the cause from the first rule whose pattern matches the message.

    `parts` fill placeholders in the rule's text.
    """
    for pattern, why, then in rules:
        if found := re.search(pattern, message):
            known = {**parts, **found.groupdict()}
            return Cause(why.format(**known), then.format(**known))
    return None


def quoted(message: str | None) -> str:
    """Return a message of Kubernetes on one line, without semicolons and without a full stop at the end.

    In the plugin's messages, a semicolon stands between the finding and the next step.
    """
    return " ".join((message or "").split()).replace("; ", ", ").rstrip(".,: ")


def is_own(cause: str) -> bool:
    """Tell whether the cause alone explains the failure.

    If it does not, the log of another pod may explain it, or the next start may succeed.
    """
    return OF_OTHERS.match(cause) is None


def only_code(cause: str) -> bool:
    """Tell whether the cause is only a program's exit code, with a reference to the log.

    A script of the chart writes this cause.
    """
    return SEE_LOG in cause


def of_start(message: str) -> str | None:
    """Return why the image cannot start its container's program, or None if the message is about something else."""
    found = EXEC.search(message) or ENV.search(message)
    if found is None:
        return None
    program, why = found["program"], found["why"]
    if MISSING.search(why) and (program == "python3" or program.startswith(SCRIPTS)):
        return "has no python3 or no /usr/bin/env, which start the pods' scripts; use an image with Python 3.6 or newer"
    if "exec format error" in why:
        return "is for another kind of processor; use an image for the nodes' processors"
    return f"cannot run {program}: {why}; use an image with this program"


def of_pull(message: str) -> str:
    """Return why an image cannot be pulled.

    The reason is the last part of kubelet's message, which is a chain of errors.
    """
    if WRONG_PLATFORM in message:
        return "it has no build for the node's kind of processor"
    return message.rstrip(": ").rpartition(": ")[2]


def with_next_step(cause: str) -> str:
    """If the chart's scripts wrote the cause, add what the user should do; otherwise return the cause unchanged.

    The scripts write two causes: the image lacks the program, or the memory was too small.
    """
    if cause.startswith("command: ") and "; " not in cause:
        return f"{cause}; correct command, or use an image that holds it"
    if cause.endswith(SEE_MEMORY):
        return f"{cause.removesuffix(SEE_MEMORY)}; raise workers.memory, or lower trainer.batchSize"
    return cause
