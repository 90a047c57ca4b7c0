"""Read how many ranks a worker has, either from the job or from the hostfile in a ConfigMap of the manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from distrain import kube
from distrain.kube.resource import Resource
from distrain.workload.kinds import KUBEFLOW

HOSTFILE, SLOTS = "hostfile", re.compile(r"\bslots=(\d+)")


def slots_of(resource: Resource, workload: kube.Workload, items: Iterable[dict[str, Any]]) -> int | None:
    """Return the number of ranks per worker that mpirun, torchrun or TensorFlow gets, or None if it is not known."""
    kind = KUBEFLOW.get(resource.kind)
    match kind and kind.slots:
        case "slotsPerWorker":
            return 1 if workload.spec.slots_per_worker is None else workload.spec.slots_per_worker
        case "nprocPerNode":
            told = str(workload.spec.nproc_per_node)
            return int(told) if told.isdecimal() else None
        case int(slots):
            return slots
    return next(filter(None, map(_slots_of_hosts, items)), None)


def _slots_of_hosts(item: dict[str, Any]) -> int | None:
    """Return the slots per host in a ConfigMap's hostfile.

    Return None if there is no hostfile, or if its hosts have different numbers of slots.
    """
    hostfile = (item.get("data") or {}).get(HOSTFILE) if item.get("kind") == "ConfigMap" else None
    slots = {int(number) for number in SLOTS.findall(str(hostfile))}
    return slots.pop() if len(slots) == 1 else None
