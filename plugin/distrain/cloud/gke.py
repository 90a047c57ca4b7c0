"""Write the commands that create a cluster on GKE, and the commands before and after a run.

The flags come from gcloud's reference (https://cloud.google.com/sdk/gcloud/reference/container), read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain.cloud import steps
from distrain.cloud.groups import Group
from distrain.cloud.plan import Plan
from distrain.cloud.steps import Command, Step

NETWORKS = "https://cloud.google.com/kubernetes-engine/docs/how-to/gpu-bandwidth-gpudirect-tcpx"


def text(plan: Plan) -> str:
    return steps.script(plan, commands(plan))


def commands(plan: Plan) -> list[Step]:
    where = f"--location={plan.location.zones[0]}"
    clusters = ["gcloud", "container", "clusters"]
    return [
        Step(
            "Create the cluster, still without GPU nodes, and point kubectl to it.",
            [_cluster(plan, where), [*clusters, "get-credentials", plan.name, where]],
        ),
        _pool(plan, where),
        *_networks(plan),
        *steps.operators(plan),
        steps.before(plan, _resized(plan, where, plan.gpu.nodes)),
        steps.run(plan),
        steps.after(plan, _resized(plan, where, 0)),
        steps.removed([*clusters, "delete", plan.name, where]),
    ]


def _cluster(plan: Plan, where: str) -> Command:
    system = plan.system
    sizes = [f"--machine-type={system.instance.type}", f"--num-nodes={system.nodes}"]
    # GKE can enable these two features only when it creates a cluster.
    networks = ["--enable-dataplane-v2", "--enable-multi-networking"] if plan.needs.has_gke_networks else []
    return ["gcloud", "container", "clusters", "create", plan.name, where, *sizes, *_labels(system), *networks]


def _pool(plan: Plan, where: str) -> Step:
    group = plan.gpu
    of = group.instance
    gpus = f"--accelerator=type={of.accelerator},count={of.gpus},gpu-driver-version=latest"
    placement = ["--placement-type=COMPACT"] if plan.has_placement_group else []
    command = [
        *("gcloud", "container", "node-pools", "create", group.name, f"--cluster={plan.name}", where),
        *(f"--machine-type={of.type}", gpus, "--num-nodes=0", "--enable-gvnic", *_labels(group), *placement),
    ]
    words = (
        "Create the GPU nodes' pool, of no node yet. GKE installs the driver and the device plugin, and sets the taint"
    )
    return Step(
        f"{words} {plan.needs.gpu_resource}=present:NoSchedule, which it lets pods with GPUs tolerate.", [command]
    )


def _labels(group: Group) -> list[str]:
    pairs = ",".join(f"{key}={value}" for key, value in group.labels.items())
    return [f"--node-labels={pairs}"] if pairs else []


def _networks(plan: Plan) -> Iterator[Step]:
    if plan.needs.has_gke_networks:
        words = (
            "The workers' annotations name more networks. No command here creates these: their VPCs, the pool's flag"
        )
        yield Step(f"{words} --additional-node-network for each, and their Network objects are on {NETWORKS}")


def _resized(plan: Plan, where: str, nodes: int) -> Command:
    sizes = [f"--node-pool={plan.gpu.name}", f"--num-nodes={nodes}", "--quiet"]
    return ["gcloud", "container", "clusters", "resize", plan.name, where, *sizes]
