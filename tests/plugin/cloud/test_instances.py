"""Test the table of instance types, the estimate of a node's allocatable resources, and --instance of the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distrain.command_line import helptext
from distrain.instances import reserved
from distrain.instances.reserved import GIB, offered
from distrain.instances.table import AKS, EKS, GKE, Instance, all_of, find, with_gpus, without_gpus
from lab.builds import golang
from tests.plugin.cloud.making import PROFILES
from tests.plugin.program import called

TYPES = [instance for provider in (EKS, GKE, AKS) for instance in with_gpus(provider)]


def _eksctls_types() -> dict[str, dict[str, str]]:
    """Return the fields of each instance type from eksctl's own table."""
    folder = golang.module_dir("eksctl", "github.com/weaveworks/eksctl")
    text = (folder / "pkg" / "utils" / "instance" / "instance_types.go").read_text()
    blocks = re.findall(r"\{\n\t\tInstanceType: +\"(.+)\",\n((?:\t\t\w+: .*\n)+)", text)
    return {name: dict(re.findall(r"(\w+): +\"?([\w-]*)", body)) for name, body in blocks}


def test_types_of_eks_agree_with_eksctls_table() -> None:
    theirs = _eksctls_types()

    assert len(theirs) > 500
    for instance in all_of(EKS):
        found = theirs[instance.type]
        expected = (found["NvidiaGPUType"], found["EFASupported"] == "true", found["CPUArch"])
        if instance.gpus:
            assert (instance.gpu, instance.efa > 0, "x86-64") == expected, instance.type
        else:
            assert (found["NvidiaGPUType"], found["CPUArch"]) == ("", "x86-64"), instance.type


def test_device_plugin_of_eksctl_runs_on_every_type_with_efa() -> None:
    folder = golang.module_dir("eksctl", "github.com/weaveworks/eksctl")
    plugin = (folder / "pkg" / "addons" / "assets" / "efa-device-plugin.yaml").read_text()

    assert [each.type for each in with_gpus(EKS) if each.efa and f"- {each.type}\n" not in plugin] == []
    # The printed commands patch eksctl's EFA DaemonSet, because its pods do not tolerate the taint of GPU nodes.
    assert "nvidia.com/gpu" not in plugin


def test_device_plugins_of_nvidia_tolerate_the_taint() -> None:
    folder = golang.module_dir("eksctl", "github.com/weaveworks/eksctl")
    plugin = (folder / "pkg" / "addons" / "assets" / "nvidia-device-plugin.yaml").read_text()

    assert re.search(r"key: nvidia.com/gpu\n +operator: Exists\n +effect: NoSchedule", plugin)
    assert "k8s-device-plugin:v0.17.4" in plugin


def test_types_are_distinct_and_complete() -> None:
    assert len({each.type for each in TYPES}) == len(TYPES) >= 25
    for each in TYPES:
        assert all((each.gpu, each.gpu_memory, each.cpus, each.memory, each.network)), each.type
        assert bool(each.accelerator) == (each.provider == GKE), each.type
    for provider in (EKS, GKE, AKS):
        assert [each.cpus for each in without_gpus(provider)] == [4, 16, 64]


@pytest.mark.parametrize("instance", TYPES, ids=lambda each: each.type)
def test_help_lists_each_type(instance: Instance) -> None:
    assert f"`{instance.type}`" in helptext.read("cluster").sections["Instance types"]


def _of(provider: str, cpus: int, memory: int = 16) -> Instance:
    return Instance("t", 0, "", 0, cpus, memory, 10, provider=provider)


@pytest.mark.parametrize(
    ("provider", "cpus", "expected"),
    [
        # GKE's documentation says that 3920m of a node with 4 CPUs are allocatable. EKS reserves CPUs in the same tiers
        # as GKE.
        pytest.param(GKE, 4, 80, id="gke-4"),
        pytest.param(EKS, 4, 80, id="eks-4"),
        pytest.param(EKS, 96, 310, id="eks-96"),
        # The reserved CPUs are from the table in AKS' documentation.
        *(
            pytest.param(AKS, cpus, reserved, id=f"aks-{cpus}")
            for cpus, reserved in ((1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740))
        ),
    ],
)
def test_cpus_are_reserved_as_the_provider_publishes(provider: str, cpus: int, expected: int) -> None:
    assert offered(_of(provider, cpus), efa=False)["cpu"] == cpus * 1000 - expected - reserved.DAEMONS["cpu"]


@pytest.mark.parametrize(
    ("provider", "cpus", "gibibytes", "kubelets"),
    [
        # The expected amounts exclude the eviction threshold of 100 MiB, which all providers have.
        pytest.param(GKE, 4, 150, 9.76 * GIB, id="gke"),
        pytest.param(EKS, 4, 16, (11 * 58 + 255) * 2**20, id="eks-small"),
        pytest.param(EKS, 96, 1152, (11 * 737 + 255) * 2**20, id="eks-large"),
        pytest.param(AKS, 8, 100, 5050 * 10**6, id="aks"),
        pytest.param(AKS, 4, 16, 4 * GIB, id="aks-a-quarter"),
    ],
)
def test_memory_is_reserved_as_the_provider_publishes(
    provider: str, cpus: int, gibibytes: int, kubelets: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserved, "KERNEL_SHARE", 0)

    left = offered(_of(provider, cpus, gibibytes), efa=False)["memory"]

    taken = gibibytes * GIB - left - 100 * 2**20 - reserved.DAEMONS["memory"]
    assert taken == pytest.approx(kubelets, abs=2**20)


@pytest.mark.parametrize(
    ("kind", "cpu", "mebibytes"),
    [
        pytest.param("g5.xlarge", 3920, 14162, id="g5.xlarge"),
        pytest.param("g5.12xlarge", 47810, 173400, id="g5.12xlarge"),
        pytest.param("p4d.24xlarge", 95690, 1082712, id="p4d.24xlarge"),
        pytest.param("p3dn.24xlarge", 95690, 718987, id="p3dn.24xlarge"),
    ],
)
def test_estimate_for_eks_is_karpenters(kind: str, cpu: int, mebibytes: int) -> None:
    # From https://karpenter.sh/preview/reference/instance-types/ of 2026-08-21. The expected amounts do not include the
    # requests of DaemonSets.
    free = offered(find(kind), efa=False)

    assert free["cpu"] + reserved.DAEMONS["cpu"] == cpu
    assert (free["memory"] + reserved.DAEMONS["memory"]) / 2**20 == pytest.approx(mebibytes, abs=1)


def test_efa_sets_huge_pages_aside() -> None:
    instance = find("p5.48xlarge")

    plain, with_efa = (offered(instance, efa=efa) for efa in (False, True))

    assert with_efa["vpc.amazonaws.com/efa"] == 32
    assert "vpc.amazonaws.com/efa" not in plain
    assert plain["memory"] - with_efa["memory"] == with_efa["hugepages-2Mi"] == 5128 * 2 * 2**20


@pytest.fixture(autouse=True)
def _helm(helm4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))


def test_derive_spreads_a_total_over_nodes_of_a_type(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = called(capsys, "derive", "--set", "gpus=12", "--instance", "g5.12xlarge")

    assert outcome.code == 0
    assert {key: outcome.workers[key] for key in ("replicas", "gpus")} == {"replicas": 3, "gpus": 4}
    # A node offers 47310m CPU and 158.3Gi memory to pods, if no huge pages are reserved for EFA. On one of the nodes,
    # the launcher needs 100m CPU and 512Mi memory.
    assert (outcome.workers["cpu"], outcome.workers["memory"]) == (47, "157Gi")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["--instance", "p5"],
            "--instance: distrain knows no instance type p5 with GPUs; did you mean p5.48xlarge?",
            id="unknown",
        ),
        pytest.param(["--instance", "g5.xlarge", "--node-gpus", "8"], "--node-gpus: cannot be combined with", id="two"),
    ],
)
def test_derive_refuses_a_wrong_type(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    outcome = called(capsys, "derive", "--set", "gpus=16", *arguments)

    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert words in outcome.err


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        pytest.param("2xp4d.24xlarge", 0, id="enough"),
        pytest.param("1xp4d.24xlarge", 11, id="too-few"),
        pytest.param("2xp5.48xlarge", 11, id="other-type"),
        pytest.param("2xp4d.24xlarge:vpc.amazonaws.com/efa=0", 11, id="without-efa"),
    ],
)
def test_check_assumes_nodes_of_a_type(capsys: pytest.CaptureFixture[str], nodes: str, code: int) -> None:
    profile = str(PROFILES / "eks-p4d-efa.yaml")

    outcome = called(
        capsys, "check", "-f", profile, "--set", "workers.replicas=2", "--offline", "--assume-nodes", nodes
    )

    assert outcome.code == code, outcome.out


def test_check_refuses_an_unknown_type(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = called(capsys, "check", "--offline", "--assume-nodes", "2xp4d.24xlrge")

    assert (outcome.code, outcome.out) == (2, "")
    words = "--assume-nodes: distrain knows no instance type p4d.24xlrge with GPUs; did you mean p4d.24xlarge?"
    assert words in outcome.err


def test_operators_are_the_releases_that_the_lab_runs() -> None:
    from distrain.cloud.steps import RELEASES

    for name, release in RELEASES.items():
        pinned = (golang.MODULES / name / "go.mod").read_text()
        assert re.search(rf"github.com/kubeflow/{name} {re.escape(release)}\b", pinned)
        folder = golang.module_dir(name, f"github.com/kubeflow/{name}")
        assert (folder / "manifests" / "overlays" / "standalone" / "kustomization.yaml").is_file()
