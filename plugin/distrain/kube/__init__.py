"""Kubernetes' objects as typed structs, by the module that defines them, and how the API server encodes them."""

from distrain.kube.node import Node, NodeStatus, Taint
from distrain.kube.objects import (
    Amounts,
    Condition,
    Event,
    Kube,
    Metadata,
    Named,
    ObjectReference,
    OwnerKind,
    Quantity,
    Resources,
)
from distrain.kube.pod_spec import (
    Affinity,
    Container,
    PodAffinity,
    PodSpec,
    PodTemplate,
    PodTerm,
    Port,
    Reference,
    TemplateContainer,
    TemplateSpec,
    TemplateVolume,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from distrain.kube.pod_status import ContainerStatus, Pod, PodStatus, Waiting
from distrain.kube.selectors import LabelSelector, NodeSelector, NodeTerm, Requirement
from distrain.kube.storage import ClaimSpec, StorageClass, Topology
from distrain.kube.workload import ReplicaSpec, Workload, WorkloadSpec, WorkloadStatus
