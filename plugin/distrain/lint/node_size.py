"""Warn if workers request more than any node has. `check` reports the same problem in its verdict."""

from __future__ import annotations

from collections.abc import Iterator

from distrain.kube.quantities import rounded_down
from distrain.lint.subject import Subject, ValueWarning


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    if not subject.nodes:
        return
    for resource, request in sorted(subject.requests.items()):
        most = subject.most(resource)
        if request > most:
            asked, has = rounded_down(resource, request), rounded_down(resource, most)
            better = f"set it to {has} or less" if most else "remove it, or add nodes that offer it"
            yield ValueWarning(
                subject.path_of(resource), f"is {asked}, and no node has more than {has} {resource}", better
            )
