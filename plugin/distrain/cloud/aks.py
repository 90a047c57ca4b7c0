"""Write the commands that create a cluster on AKS, and the commands before and after a run.

The flags come from az's reference (https://learn.microsoft.com/cli/azure/aks), read 2026-11-28.
"""

from __future__ import annotations

from collections.abc import Iterator

from distrain.cloud import steps
from distrain.cloud.groups import Group
from distrain.cloud.plan import Plan
from distrain.cloud.steps import Command, Shell, Step

# eksctl 0.215.0 installs the same release of the device plugin. The device plugin's pods tolerate the taint
# nvidia.com/gpu.
DEVICE_PLUGIN = (
    "https://raw.githubusercontent.com/NVIDIA/k8s-device-plugin/v0.17.4/deployments/static/nvidia-device-plugin.yml"
)
INFINIBAND = "https://azure.github.io/aks-rdma-infiniband/configurations/network-operator"
FEATURE = ["--namespace=Microsoft.ContainerService", "--name=AKSInfinibandSupport"]


def text(plan: Plan) -> str:
    return steps.script(plan, commands(plan))


def commands(plan: Plan) -> list[Step]:
    group, where = f"--resource-group={plan.name}", f"--location={plan.location.region}"
    return [
        *_feature(plan),
        Step(
            "Create the cluster, still without GPU nodes, and point kubectl to it.",
            [
                ["az", "group", "create", f"--name={plan.name}", where],
                _cluster(plan, group, where),
                ["az", "aks", "get-credentials", group, f"--name={plan.name}"],
            ],
        ),
        *_placement(plan, group, where),
        Step("Create the GPU nodes' pool, of no node yet. AKS installs the driver.", [_pool(plan, group)]),
        Step("Install NVIDIA's device plugin, which offers the GPUs.", [["kubectl", "apply", "-f", DEVICE_PLUGIN]]),
        *_infiniband(plan),
        *steps.operators(plan),
        steps.before(plan, _scaled(plan, group, plan.gpu.nodes)),
        steps.run(plan),
        steps.after(plan, _scaled(plan, group, 0)),
        steps.removed(["az", "group", "delete", f"--name={plan.name}"]),
    ]


def _feature(plan: Plan) -> Iterator[Step]:
    if plan.needs.rdma:
        words = "Register AKS's feature for InfiniBand, once for each subscription; go on when `show` says Registered."
        yield Step(words, [["az", "feature", "register", *FEATURE], ["az", "feature", "show", *FEATURE]])


def _cluster(plan: Plan, group: str, where: str) -> Command:
    system = plan.system
    pool = [f"--nodepool-name={system.name}", f"--node-vm-size={system.instance.type}", f"--node-count={system.nodes}"]
    labels = ["--nodepool-labels", *pairs] if (pairs := _labels(system)) else []
    return ["az", "aks", "create", group, f"--name={plan.name}", where, *pool, "--generate-ssh-keys", *labels]


def _placement(plan: Plan, group: str, where: str) -> Iterator[Step]:
    if plan.has_placement_group:
        words = "Create the proximity placement group, which puts the GPU nodes near each other."
        yield Step(words, [["az", "ppg", "create", group, f"--name={plan.placement_group}", where]])


def _pool(plan: Plan, group: str) -> Command:
    gpu = plan.gpu
    names = [group, f"--cluster-name={plan.name}", f"--name={gpu.name}", "--mode=User"]
    more = [f"--node-taints={gpu.taint.key}={gpu.taint.value}:{gpu.taint.effect}"] if gpu.taint else []
    more += ["--labels", *pairs] if (pairs := _labels(gpu)) else []
    more += [f"--zones={plan.location.zones[0]}"] if plan.location.zones else []
    if plan.has_placement_group:
        shown = f"az ppg show {group} --name={plan.placement_group} --query=id --output=tsv"
        more.append(Shell(f'--ppg="$({shown})"'))
    return ["az", "aks", "nodepool", "add", *names, f"--node-vm-size={gpu.instance.type}", "--node-count=0", *more]


def _labels(group: Group) -> list[str]:
    return [f"{key}={value}" for key, value in group.labels.items()]


def _infiniband(plan: Plan) -> Iterator[Step]:
    if plan.needs.rdma:
        words = f"Install NVIDIA's network operator, which offers {', '.join(plan.needs.rdma)}; no command here does"
        yield Step(f"{words}: see {INFINIBAND}")


def _scaled(plan: Plan, group: str, nodes: int) -> Command:
    names = [group, f"--cluster-name={plan.name}", f"--name={plan.gpu.name}"]
    return ["az", "aks", "nodepool", "scale", *names, f"--node-count={nodes}"]
