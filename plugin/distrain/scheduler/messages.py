"""The exact messages of kube-scheduler's filter plugins for nodes that they refuse."""

from __future__ import annotations

# NodeUnschedulable, NodeName, TaintToleration, NodeAffinity
UNSCHEDULABLE = "node(s) were unschedulable"
OTHER_NAME = "node(s) didn't match the requested node name"
UNTOLERATED = "node(s) had untolerated taint(s)"
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"

# NodePorts, NodeResourcesFit
NO_FREE_PORTS = "node(s) didn't have free ports for the requested pod ports"
TOO_MANY_PODS = "Too many pods"

# VolumeRestrictions
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

# NodeVolumeLimits
TOO_MANY_VOLUMES = "node(s) exceed max volume count"

# VolumeBinding, VolumeZone
NOT_BOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_PV = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
OTHER_ZONE = "node(s) had no available volume zone"

# PodTopologySpread
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = f"{UNEVEN} (missing required label)"

# InterPodAffinity
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"

# SchedulingGates
GATED = "Scheduling is blocked due to non-empty scheduling gates"
