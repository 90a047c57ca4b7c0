"""Test the two node groups: their types, numbers of nodes, labels and taints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin.cloud.making import (
    PARTS,
    PRICES,
    PROFILES,
    TOLERATIONS,
    WHOLE,
    Make,
    config_of,
    gpu_group,
    system_group,
    workers,
)

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "distrain"}},
            }
        ]
    }
}


def _apart() -> str:
    values = yaml.safe_load(PARTS)
    values["workers"]["affinity"] = APART
    return yaml.safe_dump(values)


@pytest.mark.parametrize(
    ("values", "arguments", "expected"),
    [
        pytest.param(WHOLE, [], ("g5.48xlarge", 2), id="a-worker-on-each-node"),
        pytest.param(PARTS, [], ("g5.48xlarge", 1), id="all-workers-on-one-node"),
        pytest.param(PARTS, ["--instance", "g5.12xlarge"], ("g5.12xlarge", 2), id="two-workers-on-each-node"),
        pytest.param(
            workers(replicas=4, gpus=2, cpu=20, memory="20Gi"),
            ["--instance", "g5.12xlarge"],
            ("g5.12xlarge", 2),
            id="as-many-as-its-cpus-hold",
        ),
        pytest.param(
            workers(replicas=4, gpus=2, cpu=30, memory="20Gi"),
            ["--instance", "g5.12xlarge"],
            ("g5.12xlarge", 4),
            id="one-for-its-cpus",
        ),
        pytest.param(_apart(), ["--instance", "g5.48xlarge"], ("g5.48xlarge", 4), id="workers-apart"),
        pytest.param("gpus: 24\n", ["--instance", "p5.48xlarge"], ("p5.48xlarge", 3), id="total"),
        pytest.param("gpus: 24\n", [], ("g5.48xlarge", 3), id="total-without-a-type"),
        pytest.param("framework: pytorch\njob: {elastic: false}\n" + WHOLE, [], ("g5.48xlarge", 2), id="master"),
    ],
)
def test_gpu_nodes_hold_whole_workers(make: Make, values: str, arguments: list[str], expected: tuple[str, int]) -> None:
    group = gpu_group(make(values, *arguments))

    assert (group["instanceType"], group["maxSize"]) == expected
    assert (group["minSize"], group["desiredCapacity"]) == (0, 0)


def test_cheapest_type_is_chosen_by_the_users_prices(make: Make, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text("g5.48xlarge: 16.29\np4d.24xlarge: 9.5  # reserved\nm6i.xlarge :0.192\n")

    outcome = make(WHOLE, "--prices", "prices")

    assert gpu_group(outcome)["instanceType"] == "p4d.24xlarge"
    assert (
        "# 3. Before a run: 2 GPU nodes. An hour costs 19.192 (2 x p4d.24xlarge at 9.5 + 1 x m6i.xlarge at"
        in outcome.out
    )
    assert "# 5. After the run: no GPU node. An hour costs 0.192 (1 x m6i.xlarge at 0.192), by prices;" in outcome.out


def test_table_of_prices_may_begin_with_a_byte_order_mark(make: Make, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text("p4d.24xlarge: 9.5\ng5.48xlarge: 16.29\nm6i.xlarge: 1\n", encoding="utf-8-sig")

    outcome = make(WHOLE, "--prices", "prices")

    assert gpu_group(outcome)["instanceType"] == "p4d.24xlarge"


def test_nothing_is_said_of_costs_without_prices(make: Make) -> None:
    assert "costs" not in make(WHOLE).out


@pytest.mark.parametrize(
    ("tolerations", "taints"),
    [
        pytest.param([{"key": "nvidia.com/gpu", "operator": "Exists"}], [TAINT], id="exists"),
        pytest.param([{"operator": "Exists"}], [TAINT], id="everything"),
        pytest.param(
            [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "own", "effect": "NoSchedule"}],
            [{**TAINT, "value": "own"}],
            id="own-value",
        ),
        pytest.param([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}], None, id="other-effect"),
        pytest.param([], None, id="none"),
    ],
)
def test_taint_is_one_that_the_workers_tolerate(
    make: Make, tolerations: list[dict[str, str]], taints: list[dict[str, str]] | None
) -> None:
    assert gpu_group(make(workers(tolerations=tolerations))).get("taints") == taints


def test_groups_get_the_labels_of_the_node_selectors(make: Make) -> None:
    values = workers(nodeSelector={"pool": "gpu", "kubernetes.io/os": "linux"})

    outcome = make(values + "launcher: {nodeSelector: {pool: cpu}}\n")

    assert gpu_group(outcome)["labels"] == {"pool": "gpu"}
    assert system_group(outcome)["labels"] == {"pool": "cpu"}


@pytest.mark.parametrize(
    ("tolerations", "labels"),
    [
        pytest.param("", {"pool": "all"}, id="kept-off-by-the-taint"),
        pytest.param(TOLERATIONS, None, id="beside-the-workers"),
    ],
)
def test_launcher_with_the_workers_selector_runs_where_the_taint_lets_it(
    make: Make, tolerations: str, labels: dict[str, str] | None
) -> None:
    outcome = make(f"nodeSelector: {{pool: all}}\n{tolerations}\n{WHOLE}")

    assert gpu_group(outcome)["labels"] == {"pool": "all"}
    assert system_group(outcome).get("labels") == labels


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(WHOLE, ("m6i.xlarge", 1), id="launcher"),
        pytest.param(WHOLE + "launcher: {cpu: 8}\n", ("m6i.4xlarge", 1), id="larger-launcher"),
        pytest.param(
            "framework: mxnet\nstrategy: parameter-server\nservers: {replicas: 3, cpu: 3}\n" + WHOLE,
            ("m6i.xlarge", 4),
            id="servers",
        ),
    ],
)
def test_other_nodes_hold_the_other_pods(make: Make, values: str, expected: tuple[str, int]) -> None:
    group = system_group(make(values))

    assert (group["instanceType"], group["desiredCapacity"]) == expected


def _efa(group: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(group.get(key) for key in ("efaEnabled", "privateNetworking", "placement", "availabilityZones"))


def test_efa_and_a_placement_group_are_there_when_asked(make: Make) -> None:
    asked = make(WHOLE, "--efa", "--placement-group", "--zone", "us-east-1a,us-east-1b")

    assert _efa(gpu_group(asked)) == (True, True, {"groupName": "distrain-gpu"}, ["us-east-1a"])
    assert config_of(asked)["metadata"]["region"] == "us-east-1"
    assert _efa(gpu_group(make(WHOLE))) == (None, None, None, None)


def test_efa_is_there_when_the_values_ask_for_it(make: Make) -> None:
    outcome = make(WHOLE + "", "--set", r"workers.resources.limits.vpc\.amazonaws\.com/efa=4")

    group = gpu_group(outcome)
    assert group["efaEnabled"]
    assert group["instanceType"] == "g6e.48xlarge"
    assert "kubectl patch daemonset aws-efa-k8s-device-plugin" in outcome.out


@pytest.mark.parametrize(
    ("profile", "kind"),
    [
        pytest.param("eks-p4d-efa", "3 x p4d.24xlarge", id="p4d"),
        pytest.param("eks-p5-efa", "3 x p5.48xlarge", id="p5"),
        pytest.param("gke-a3-high", "3 x a3-highgpu-8g", id="a3-high"),
        pytest.param("gke-a3-mega", "3 x a3-megagpu-8g", id="a3-mega"),
        pytest.param("aks-nd-h100-v5", "3 x Standard_ND96isr_H100_v5", id="nd-h100"),
    ],
)
def test_profile_says_provider_and_type(make: Make, profile: str, kind: str) -> None:
    outcome = make((PROFILES / f"{profile}.yaml").read_text(), "--set", "workers.replicas=3")

    assert outcome.code == 0
    assert f"GPU nodes during a run: {kind} (8 " in outcome.out
    assert "get no taint" not in outcome.out


@pytest.mark.parametrize(("cloud", "provider"), [("AWS", "eks"), ("gcp", "gke"), ("google", "gke"), ("azure", "aks")])
def test_clouds_name_stands_for_its_kubernetes(make: Make, cloud: str, provider: str) -> None:
    assert make(WHOLE, "--provider", cloud) == make(WHOLE, "--provider", provider)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(WHOLE, "kubeflow/mpi-operator//manifests/overlays/standalone?ref=v0.8.0", id="mpi-operator"),
        pytest.param(
            "framework: pytorch\n" + WHOLE,
            "kubeflow/trainer//manifests/overlays/standalone?ref=v1.8.1",
            id="training-operator",
        ),
        pytest.param("job: {kind: Plain}\n" + WHOLE, None, id="plain"),
    ],
)
def test_operator_is_the_one_that_the_values_need(make: Make, values: str, expected: str | None) -> None:
    outcome = make(values)

    assert ("overlays/" in outcome.out) == bool(expected)
    assert outcome.code == 0
    assert (expected or "1. Create") in outcome.out


def test_disk_that_the_workers_ask_for_is_named(make: Make) -> None:
    outcome = make(WHOLE, "--set", "workers.resources.requests.ephemeral-storage=300Gi")

    assert "room for each worker's 300Gi of ephemeral-storage." in outcome.out.replace("\n#", "")
    assert "ephemeral-storage" not in make(WHOLE).out


def test_gang_scheduler_of_the_values_is_named(make: Make) -> None:
    assert "Install Kueue, which gang.scheduler names" in make("gang: {scheduler: kueue, queue: a}\n" + WHOLE).out


def test_same_values_give_the_same_bytes(make: Make, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text(PRICES)

    first, second = (make(WHOLE, "--prices", "prices", "--efa") for _ in range(2))

    assert first == second
