"""Warn if workers have RDMA devices but no permission to lock memory.

The page https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/runtime_and_mpi_issues.html tells
users to start containers with memlock=-1. Kubernetes has no field for this limit. Without the capability IPC_LOCK, the
limit is the default of the node's container runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from distrain.kube.gpus import GPU
from distrain.kube.security_context import ContainerSecurityContext
from distrain.lint.subject import EFA, Subject, ValueWarning

# Device plugins give such names to RDMA devices, for example rdma/ib and nvidia.com/mlnxnics. EFA is left out:
# installing its driver already raises the node's limit on locked memory.
RDMA = re.compile(r"^rdma/|/.*(rdma|mlnx|hostdev|infiniband|roce)")
LOCK = {"IPC_LOCK", "CAP_IPC_LOCK", "ALL"}


def warnings(subject: Subject) -> Iterator[ValueWarning]:
    devices = [name for name in subject.requests if RDMA.search(name) and not GPU.search(name) and name != EFA]
    if not devices:
        return
    user = _user(subject)
    if not _locks(subject):
        found = "is for RDMA, and the workers may lock no more memory than the nodes' container runtime allows"
        device = f"{{resource: {devices[0]}, count: {subject.requests[devices[0]]}}}"
        better = f"set network.rdma to {device}, and podSecurity to privileged"
        yield ValueWarning(subject.path_of(devices[0]), found, better)
    elif user:
        found = f"is {user}, and the capability IPC_LOCK, which RDMA needs, has an effect for root alone"
        yield ValueWarning("runAsUser", found, "set it to 0")


def _locks(subject: Subject) -> bool:
    context = subject.container.security_context or ContainerSecurityContext()
    added = set((context.capabilities.add if context.capabilities else None) or ())
    return bool(context.privileged or added & LOCK)


def _user(subject: Subject) -> int | str:
    """Return the user that the workers run as, or "cluster" if the cluster chooses the user."""
    for context in (subject.container.security_context, subject.workers.spec.security_context):
        if context and context.run_as_user is not None:
            return context.run_as_user
    return "cluster"
