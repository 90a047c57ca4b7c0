"""Write eksctl's ClusterConfig, and the commands before and after a run on EKS.

Fields and flags come from eksctl 0.215.0 (pkg/apis/eksctl.io/v1alpha5, pkg/ctl), read 2026-11-28.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from distrain.cloud import steps
from distrain.cloud.groups import Group
from distrain.cloud.plan import Plan
from distrain.cloud.steps import Command, Step
from distrain.yaml import yaml_writer

# For efaEnabled, eksctl creates this DaemonSet. Its pods do not tolerate the taint of GPU nodes.
EFA_PLUGIN = "aws-efa-k8s-device-plugin"


def text(plan: Plan) -> str:
    """Return the file: the steps as a comment, then the configuration."""
    config = yaml_writer.dump(configuration(plan), width=120)
    return "\n".join([*steps.head(plan), "#", steps.text(commands(plan), is_comment=True), config])


def configuration(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": plan.name, "region": plan.location.region},
    }
    if plan.location.zones:
        found["availabilityZones"] = list(plan.location.zones)
    system = {**_base(plan.system), "minSize": 1, "maxSize": plan.system.nodes, "desiredCapacity": plan.system.nodes}
    return {**found, "managedNodeGroups": [system, _gpu_group(plan)]}


def _gpu_group(plan: Plan) -> dict[str, Any]:
    """Return the group of GPU nodes. The group has no nodes until it is scaled up."""
    group = plan.gpu
    found = {**_base(group), "minSize": 0, "maxSize": group.nodes, "desiredCapacity": 0}
    if group.taint:
        found["taints"] = [{"key": group.taint.key, "value": group.taint.value, "effect": group.taint.effect}]
    if plan.location.zones:
        found["availabilityZones"] = [plan.location.zones[0]]
    if group.efa:
        # A machine with several network interfaces gets no public address.
        found |= {"efaEnabled": True, "privateNetworking": True}
    if plan.has_placement_group:
        found["placement"] = {"groupName": plan.placement_group}
    return found


def _base(group: Group) -> dict[str, Any]:
    # The accelerated image of this image family contains NVIDIA's driver.
    found: dict[str, Any] = {"name": group.name, "instanceType": group.instance.type, "amiFamily": "AmazonLinux2023"}
    return {**found, "labels": dict(group.labels)} if group.labels else found


def commands(plan: Plan) -> list[Step]:
    region = f"--region={plan.location.region}"
    removing = ["eksctl", "delete", "cluster", f"--name={plan.name}", region]
    return [
        *_placement(plan, region),
        _creation(plan),
        *_efa(plan),
        *steps.operators(plan),
        steps.before(plan, _scaled(plan, plan.gpu.nodes)),
        steps.run(plan),
        steps.after(plan, _scaled(plan, 0)),
        steps.removed(removing),
    ]


def _placement(plan: Plan, region: str) -> Iterator[Step]:
    if plan.has_placement_group:
        name = f"--group-name={plan.placement_group}"
        words = "Create the placement group, which puts the GPU nodes near each other."
        yield Step(words, [["aws", "ec2", "create-placement-group", name, "--strategy=cluster", region]])


def _creation(plan: Plan) -> Step:
    words = "Create the cluster, still without GPU nodes. eksctl also installs NVIDIA's device plugin"
    words += ", the EFA device plugin, and a placement group if there is none." if plan.gpu.efa else "."
    if not plan.location.zones:
        words += " It chooses the zones; --zone chooses one for the GPU nodes, so that traffic stays in it."
    return Step(words, [["eksctl", "create", "cluster", f"--config-file={plan.config}"]])


def _efa(plan: Plan) -> Iterator[Step]:
    if plan.gpu.efa and plan.gpu.taint:
        toleration = {"key": plan.gpu.taint.key, "operator": "Exists", "effect": plan.gpu.taint.effect}
        patch = [{"op": "add", "path": "/spec/template/spec/tolerations/-", "value": toleration}]
        where = ["kubectl", "patch", "daemonset", EFA_PLUGIN, "--namespace=kube-system", "--type=json"]
        yield Step("Let the EFA device plugin run on the tainted nodes.", [[*where, f"--patch={json.dumps(patch)}"]])


def _scaled(plan: Plan, nodes: int) -> Command:
    sizes = [f"--nodes={nodes}", "--nodes-min=0", f"--nodes-max={plan.gpu.nodes}"]
    where = [f"--cluster={plan.name}", f"--name={plan.gpu.name}", f"--region={plan.location.region}"]
    return ["eksctl", "scale", "nodegroup", *where, *sizes]
