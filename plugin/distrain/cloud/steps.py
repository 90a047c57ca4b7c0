"""Write the steps before and after a run as text: a comment for each step, and commands to paste into a shell."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from msgspec import Struct

from distrain.cloud.groups import Group
from distrain.cloud.plan import Plan, hourly
from distrain.instances.table import AKS, EKS, GKE, provider_name
from distrain.workload.kinds import Install
from distrain.workload.wording import counted

WIDTH = 118
# For each operator, the release that distrain's own tests use, and the folder of its repository for `kubectl apply -k`.
RELEASES = {"mpi-operator": "v0.8.0", "training-operator": "v1.8.1"}
REPOSITORIES = {"mpi-operator": "kubeflow/mpi-operator", "training-operator": "kubeflow/trainer"}
STANDALONE = "/manifests/overlays/standalone"
PROGRAMS = {EKS: "eksctl", GKE: "gcloud", AKS: "az"}
DISKS = "The nodes' disks have the cloud's usual size; see that it has room for each worker's"


class Shell(str):
    """A word of a command that the shell has to expand, so it is not quoted."""

    __slots__ = ()


Command = Sequence[str]


class Step(Struct, frozen=True):
    words: str
    commands: Sequence[Command] = ()


def text(steps: Sequence[Step], *, is_comment: bool = False) -> str:
    """Return the numbered steps as text.

    With `is_comment`, each command is commented out: its line begins with `# `.
    """
    lines: list[str] = []
    for number, step in enumerate(steps, start=1):
        lines += [*comment(f"{number}. {step.words}")]
        for command in step.commands:
            lines += [f"#   {line}" for line in _line(command).split("\n")] if is_comment else _wrapped(command)
        lines.append("#" if is_comment else "")
    return "\n".join(lines[:-1])


def script(plan: Plan, steps: Sequence[Step]) -> str:
    """Return the printed text for GKE and AKS, whose clusters are created with commands and no configuration file."""
    return "\n".join([*head(plan), "# Paste one step at a time.", "", text(steps), ""])


def comment(words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def head(plan: Plan) -> list[str]:
    """Return the comment at the top of the text: the cluster's purpose and its nodes."""
    workers = f"{counted(plan.needs.workers, 'worker')} of {counted(plan.needs.gpus, 'GPU')}"
    files = f"of {', '.join(plan.files)}" if plan.files else "of the chart's own values"
    name = provider_name(plan.location.provider)
    first = f"A cluster on {name} for the run {files}: {workers}. Made by `helm distrain cluster`."
    held = f"the commands to a stub of {PROGRAMS[plan.location.provider]}"
    held = f"the configuration to eksctl's schema, and {held}" if plan.location.provider == EKS else held
    tested = f"No part of this was run on {name}: distrain's tests hold {held}."
    figures = f"The types' figures are those that {name} publishes; no cloud was asked."
    return [
        *comment(first),
        *comment(f"{tested} {figures}"),
        "#",
        *comment(f"GPU nodes during a run: {_group(plan.gpu)}. {_held(plan)}"),
        *comment(f"Other nodes, always: {_group(plan.system)}."),
        *([] if plan.location.provider == GKE else comment(_taint(plan))),
        *(comment(f"{DISKS} {disk} of ephemeral-storage.") if (disk := plan.needs.disk) else []),
    ]


def _group(group: Group) -> str:
    of = group.instance
    gpus = f"{of.gpus} {of.gpu} of {of.gpu_memory} GB, " if of.gpus else ""
    network = f", {of.network} Gb/s" + (f", {of.efa} EFA" if group.efa else "")
    return f"{group.nodes} x {of.type} ({gpus}{of.cpus} CPUs, {of.memory} GiB{network})"


def _held(plan: Plan) -> str:
    number = "one worker" if plan.groups.per_node == 1 else f"{plan.groups.per_node} workers"
    return f"Each holds {number}, after what kubelet and DaemonSets are estimated to take."


def _taint(plan: Plan) -> str:
    taint = plan.gpu.taint
    if taint:
        return f"The GPU nodes have the taint {taint.key}={taint.value}:{taint.effect}, which the workers tolerate."
    words = f"workers.tolerations does not tolerate {plan.needs.gpu_resource}"
    return f"The GPU nodes get no taint, because {words}; so other pods may run there, too."


def operators(plan: Plan) -> Iterator[Step]:
    for install in plan.needs.operators:
        yield Step(f"Install {install.operator}, which creates the run's pods.", [_applied(install)])
    if plan.needs.gang:
        words = f"Install {plan.needs.gang}, which gang.scheduler names; its own pages say how."
        yield Step(words)


def _applied(install: Install) -> Command:
    repository, release = REPOSITORIES[install.operator], RELEASES[install.operator]
    source = f"https://github.com/{repository}/{STANDALONE}?ref={release}"
    return ["kubectl", "apply", "--server-side", "-k", source]


def before(plan: Plan, command: Command) -> Step:
    nodes = counted(plan.gpu.nodes, "GPU node")
    return Step(f"Before a run: {nodes}. {hourly(plan, plan.gpu.nodes)}".strip(), [command])


def run(plan: Plan) -> Step:
    files = [word for file in plan.files for word in ("-f", file)]
    words = "The run. Where its values are from flags such as --set, too, add these."
    return Step(words, [["helm", "distrain", "install", "run1", *files, "--follow"]])


def after(plan: Plan, command: Command) -> Step:
    return Step(f"After the run: no GPU node. {hourly(plan, 0)}".strip(), [command])


def removed(command: Command) -> Step:
    return Step("When no run is to come: remove the cluster, with all that is in it.", [command])


def _line(command: Command) -> str:
    return " ".join(map(_quoted, command))


def _quoted(word: str) -> str:
    return word if isinstance(word, Shell) else shlex.quote(word)


def _wrapped(command: Command) -> list[str]:
    """Return a command as text; if it is too long for one line, split it into lines that end with a backslash."""
    lines, *rest = [_quoted(command[0])], *map(_quoted, command[1:])
    for word in rest:
        if len(lines[-1]) + len(word) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"  {word}")
        else:
            lines[-1] += f" {word}"
    return lines
