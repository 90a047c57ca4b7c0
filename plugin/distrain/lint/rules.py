"""Apply all lint rules to the values of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distrain import kube
from distrain.lint import (
    efa,
    interfaces,
    locked_memory,
    names,
    node_share,
    node_size,
    shared_memory,
    ssh_port,
    variable_length,
)
from distrain.lint.subject import Subject, ValueWarning
from distrain.workload.manifest import Job

RULES = (efa, locked_memory, shared_memory, interfaces, names, ssh_port, variable_length, node_share)


def warnings(
    values: Mapping[str, Any], job: Job, nodes: Sequence[kube.Node] = (), *, with_size: bool = False
) -> list[ValueWarning]:
    """Return the warnings about the job with these merged values.

    If `with_size` is true, also warn of workers that are larger than the largest node.
    """
    subject = Subject(values, job.main, nodes, job.others)
    rules = (*RULES, node_size) if with_size else RULES
    return [warning for rule in rules for warning in rule.warnings(subject)]
