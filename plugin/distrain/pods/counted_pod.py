"""Define the parts of a pod that decide how much of its node it uses, for pods in JSON and in protobuf.

A large cluster has more than a hundred thousand pods, and most of them are alike. The fields that the pods of a
controller have in common form a `Kind`. In protobuf, a Kind is decoded only once for all of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from distrain import kube

# A list in protobuf has the content type PROTOBUF and begins with MAGIC. The list's metadata ends within the first
# BEGINNING bytes.
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
BEGINNING = 4096
DAEMON_SET = "DaemonSet"
# A static pod is defined by a file on its node, and kubelet creates a mirror pod of it in the API server. Only mirror
# pods have this annotation.
MIRROR = "kubernetes.io/config.mirror"
INFEASIBLE = ("PodResizePending", "Infeasible")


class Kind(kube.Kube, eq=False):
    """The common part of all pods of a controller. A Kind contains everything that decides how much a pod uses.

    `stays` means that the pod belongs to a DaemonSet or is a static pod, so it stays after every other pod has ended.
    `is_infeasible` means that kubelet cannot resize the pod as requested.
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


class CountedPod(Protocol):
    """A pod of the cluster; missing fields are empty. The pod is valid only while its page of the list is valid."""

    @property
    def name(self) -> str: ...

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
        """Return the pod's kind. For a pod in JSON, the kind is computed anew at each access."""


def is_infeasible(conditions: Iterable[kube.Condition]) -> bool:
    """Tell from the conditions of a pod whether kubelet cannot resize the pod as requested.

    The function works for both encodings of a pod.
    """
    pending = [each for each in conditions if each.type == INFEASIBLE[0]]
    return bool(pending) and pending[0].reason == INFEASIBLE[1]
