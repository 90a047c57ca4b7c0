"""Write stubs for the programs that the printed commands call.

A stub refuses unknown subcommands and flags. The flags come from the programs' references, read on 2026-11-28:

- eksctl 0.215.0: pkg/ctl in its module; a test compares this list with that folder;
- gcloud: https://cloud.google.com/sdk/gcloud/reference/container;
- az: https://learn.microsoft.com/cli/azure/aks, .../group, .../ppg and .../feature;
- aws: https://docs.aws.amazon.com/cli/latest/reference/ec2/create-placement-group.html;
- kubectl: https://kubernetes.io/docs/reference/kubectl/generated.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# For each subcommand: its required flags, optional flags, switches, and the number of its positional arguments.
Forms = dict[str, tuple[set[str], set[str], set[str], int]]
_AKS = {"--resource-group", "--name"}
_POOL = {*_AKS, "--cluster-name"}
FORMS: dict[str, Forms] = {
    "eksctl": {
        "create cluster": ({"--config-file"}, {"--timeout"}, set(), 0),
        "scale nodegroup": (
            {"--cluster", "--name", "--nodes"},
            {"--nodes-min", "--nodes-max", "--region", "--timeout"},
            {"--wait"},
            0,
        ),
        "delete cluster": ({"--name"}, {"--region", "--timeout"}, {"--wait"}, 0),
    },
    "gcloud": {
        "container clusters create": (
            {"--location"},
            {"--machine-type", "--num-nodes", "--node-labels"},
            {"--enable-dataplane-v2", "--enable-multi-networking"},
            1,
        ),
        "container clusters get-credentials": ({"--location"}, set(), set(), 1),
        "container node-pools create": (
            {"--cluster", "--location", "--machine-type", "--num-nodes"},
            {"--accelerator", "--node-labels", "--node-taints", "--placement-type"},
            {"--enable-gvnic"},
            1,
        ),
        "container clusters resize": ({"--location", "--num-nodes"}, {"--node-pool"}, {"--quiet"}, 1),
        "container clusters delete": ({"--location"}, set(), {"--quiet"}, 1),
    },
    "az": {
        "group create": ({"--name", "--location"}, set(), set(), 0),
        "group delete": ({"--name"}, set(), {"--yes"}, 0),
        "aks create": (
            _AKS,
            {"--location", "--nodepool-name", "--nodepool-labels", "--node-vm-size", "--node-count"},
            {"--generate-ssh-keys"},
            0,
        ),
        "aks get-credentials": (_AKS, set(), set(), 0),
        "aks nodepool add": (
            _POOL,
            {"--mode", "--node-vm-size", "--node-count", "--node-taints", "--labels", "--zones", "--ppg"},
            set(),
            0,
        ),
        "aks nodepool scale": ({*_POOL, "--node-count"}, set(), set(), 0),
        "ppg create": (_AKS, {"--location"}, set(), 0),
        "ppg show": (_AKS, {"--query", "--output"}, set(), 0),
        "feature register": ({"--namespace", "--name"}, set(), set(), 0),
        "feature show": ({"--namespace", "--name"}, set(), set(), 0),
    },
    "aws": {"ec2 create-placement-group": ({"--group-name", "--strategy"}, {"--region"}, set(), 0)},
    "kubectl": {
        "apply": (set(), {"-k", "-f"}, {"--server-side"}, 0),
        "patch daemonset": ({"--patch"}, {"--namespace", "--type"}, set(), 1),
    },
    "helm": {"distrain install": (set(), {"-f"}, {"--follow"}, 1)},
}
# Flags of az that accept several words as their value.
LISTS = {"--labels", "--nodepool-labels"}


def write(folder: Path) -> Path:
    """Write the stubs of the programs into the folder.

    Return the file to which each stub appends its arguments as one line of JSON.
    """
    log = folder / "log"
    log.write_text("")
    for program in FORMS:
        stub = folder / program
        stub.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} {log} {program} "$@"\n')
        stub.chmod(0o755)
    return log


def wrong(program: str, words: list[str]) -> str:
    """Return the mistake in a command, or an empty text if the real program would accept the command."""
    names = [name for name in FORMS[program] if words[: len(name.split())] == name.split()]
    if not names:
        return f"{program}: unknown subcommand: {' '.join(words[:3])}"
    needed, optional, switches, number = FORMS[program][max(names, key=len)]
    given, further = _parsed(words[len(max(names, key=len).split()) :], switches)
    if unknown := set(given) - needed - optional - switches:
        return f"{program}: unknown flag: {min(unknown)}"
    if missing := needed - set(given):
        return f"{program}: missing flag: {min(missing)}"
    if empty := [flag for flag, value in given.items() if flag not in switches and not value]:
        return f"{program}: flag without a value: {empty[0]}"
    return "" if len(further) == number else f"{program}: {number} words expected, found {further}"


def _parsed(words: list[str], switches: set[str]) -> tuple[dict[str, Any], list[str]]:
    given: dict[str, Any] = {}
    further, flag = [], ""
    for word in words:
        if word.startswith("-"):
            flag, _, value = word.partition("=")
            given[flag] = value
            flag = "" if value or flag in switches else flag
        elif flag:
            given[flag] = word
            flag = flag if flag in LISTS else ""
        else:
            further.append(word)
    return given, further


if __name__ == "__main__":
    _, path, program, *rest = sys.argv
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps([program, *rest]) + "\n")
    if found := wrong(program, rest):
        sys.exit(found)
    if program == "az" and rest[:2] == ["ppg", "show"]:
        print("/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/proximityPlacementGroups/p")
    if program == "eksctl" and rest[:2] == ["create", "cluster"] and not Path(rest[2].partition("=")[2]).is_file():
        sys.exit(f"eksctl: there is no {rest[2]}")
