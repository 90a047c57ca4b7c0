"""Check a job against a cluster that stands in a file: the output of `kubectl get nodes,pods -A -o json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from distrain import kube
from distrain.check.report import Report, _gpu_resource, report
from distrain.check.snapshot import take
from distrain.job import Job


@dataclass(frozen=True, slots=True)
class Contents:
    """The objects that a file holds."""

    nodes: list[kube.Node] = field(default_factory=list)
    pods: list[kube.Pod] = field(default_factory=list)


class _Kind(msgspec.Struct):
    kind: str = ""


class _List(msgspec.Struct):
    items: Sequence[msgspec.Raw]


def contents(cluster: bytes) -> Contents:
    """Read a list of objects; raises msgspec.DecodeError when it is something else."""
    found = Contents()
    for item in msgspec.json.decode(cluster, type=_List).items:
        kind = msgspec.json.decode(item, type=_Kind).kind
        if kind == "Node":
            found.nodes.append(msgspec.json.decode(item, type=kube.Node))
        elif kind == "Pod":
            found.pods.append(msgspec.json.decode(item, type=kube.Pod))
    return found


def check_snapshot(cluster: bytes, job: Job, namespace: str) -> Report:
    """Judge the job against what the file holds."""
    found = contents(cluster)
    return report(job, take(found.nodes, found.pods, namespace), _gpu_resource(job), [])
