"""The parts of a pod that decide what it uses of its node, whatever its encoding.

A large cluster has more than a hundred thousand pods, and most of them are alike: their common part, the `Kind`, is
decoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from distrain import kube

DAEMON_SET = "DaemonSet"
# Only a static pod has this annotation: it stands for a file on its node.
MIRROR = "kubernetes.io/config.mirror"
INFEASIBLE = ("PodResizePending", "Infeasible")


class Kind(kube.Kube, eq=False):
    """What the pods of a controller have in common, and all that tells what one of them takes.

    `stays`: whether it stays on its node whatever ends, as a DaemonSet's does and a static one.
    `is_infeasible`: whether kubelet has said that it cannot be resized as it is asked to.
    """

    stays: bool = False
    phase: str = ""
    priority: int = 0
    nominated_node_name: str | None = None
    containers: list[kube.Container] | None = None
    init_containers: list[kube.Container] | None = None
    resources: kube.Resources | None = None
    overhead: kube.Amounts | None = None
    anti_affinity: kube.PodAffinity | None = None
    container_statuses: list[kube.ContainerStatus] | None = None
    init_container_statuses: list[kube.ContainerStatus] | None = None
    is_infeasible: bool = False


class Condition(Protocol):
    """A condition of a pod, in either encoding."""

    @property
    def type(self) -> str: ...

    @property
    def reason(self) -> str | None: ...


class CountedPod(Protocol):
    """A pod; what it does not have is empty. Nobody may keep it longer than the page that it stands on."""

    @property
    def namespace(self) -> str: ...

    @property
    def labels(self) -> dict[str, str]: ...

    @property
    def is_leaving(self) -> bool: ...

    @property
    def node_name(self) -> str: ...

    @property
    def volumes(self) -> Sequence[kube.Volume]: ...

    @property
    def kind(self) -> Kind:
        """Worked out anew each time where the pod is JSON."""


def is_infeasible(conditions: Iterable[Condition]) -> bool:
    """Tell from a pod's conditions whether it cannot be resized as it is asked to."""
    pending = [each for each in conditions if each.type == INFEASIBLE[0]]
    return bool(pending) and pending[0].reason == INFEASIBLE[1]
