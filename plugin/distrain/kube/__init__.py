"""Define Kubernetes objects as typed structs, and decode the API server's JSON."""

from distrain.kube.node import Node, NodeImages, NodeStatus, Taint
from distrain.kube.objects import (
    Condition,
    Event,
    Kube,
    Metadata,
    Named,
    ObjectReference,
    OwnerKind,
    Resources,
    TemplateMetadata,
)
from distrain.kube.placement import (
    Affinity,
    PodAffinity,
    PodTerm,
    TemplateAffinity,
    TemplateNodeAffinity,
    TemplatePodAffinity,
    TemplateSpreadConstraint,
    TemplateToleration,
    Toleration,
    TopologySpreadConstraint,
)
from distrain.kube.pod_spec import (
    Container,
    Ephemeral,
    PodSpec,
    PodTemplate,
    Port,
    TemplateContainer,
    TemplateSpec,
    TemplateVolume,
    Volume,
    VolumeMount,
)
from distrain.kube.pod_status import ContainerStatus, Pod, PodStatus, Terminated, Waiting
from distrain.kube.quantities import Amounts, Quantity
from distrain.kube.selectors import LabelSelector, NodeSelector, NodeTerm, Requirement
from distrain.kube.storage import ClaimSpec, ClaimTemplate, StorageClass, Topology
from distrain.kube.workload import ReplicaSpec, Workload, WorkloadSpec, WorkloadStatus
