"""Warn if a worker requests more of a node than its share of the node's GPUs, so that other GPUs stay idle."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from distrain.kube.quantities import Units, rounded_down
from distrain.lint.subject import Subject, ValueWarning


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    for resource in ("cpu", "memory"):
        shares = [_share(node, resource, subject) for node in subject.gpu_nodes]
        request = subject.requests.get(resource, 0)
        if shares and request > max(shares):
            yield _warning(subject, resource, max(shares))


def _share(node: Units, resource: str, subject: Subject) -> int:
    """Return the largest request of a worker that leaves enough of the node for workers on its other GPUs.

    If the node has GPUs for only one worker, there is no limit, because no other worker could use the remaining GPUs.
    """
    workers = node[subject.gpu_resource] // subject.gpus
    return node.get(resource, 0) // workers if workers > 1 else sys.maxsize


def _warning(subject: Subject, resource: str, share: int) -> ValueWarning:
    # Round down to whole CPUs, because people give CPUs in whole numbers.
    better = str(share // 1000) if resource == "cpu" and share >= 1000 else rounded_down(resource, share)
    asked = rounded_down(resource, subject.requests[resource])
    found = f"is {asked}, more than the share of {subject.gpus} GPUs of a node, {better}, so that GPUs stay idle"
    return ValueWarning(subject.path_of(resource), found, f"set it to {better} or less")
