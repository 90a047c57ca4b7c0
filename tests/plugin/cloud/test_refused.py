"""Test that `cluster` answers a mistake with exit code 2 and one line: place, finding and next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.cloud.making import PARTS, PRICES, PROFILES, WHOLE, Make, workers

KEY = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("values", "arguments", "words"),
    [
        pytest.param(
            "workers: {gpus: 0}\n", [], "workers.gpus: is 0, but `cluster` plans only GPU nodes; set", id="no-gpus"
        ),
        pytest.param("gpus: 0\n", [], "gpus: is 0, but `cluster` plans only GPU nodes; set gpus", id="total-of-0"),
        pytest.param(
            "workers: {gpus: 8, gpuResource: amd.com/gpu}\n",
            [],
            "workers.gpuResource: is amd.com/gpu, but the known types offer nvidia.com/gpu; set it to",
            id="other-gpus",
        ),
        pytest.param(
            "workers: {gpus: 8, gpuResource: ''}\n",
            [],
            "workers.gpuResource: is empty, but `cluster` needs the",
            id="claims",
        ),
        pytest.param("job: {enabled: false}\n", [], "job.enabled: is false", id="no-job"),
        pytest.param(
            WHOLE,
            ["--instance", "g5.12xlarge"],
            "--instance: no worker fits on g5.12xlarge: workers.gpus requests 8 nvidia.com/gpu, but a node offers 4; "
            "name one of g5.48xlarge,",
            id="too-few-gpus",
        ),
        pytest.param(
            workers(memory="900Gi"),
            ["--instance", "g5.48xlarge"],
            "--instance: no worker fits on g5.48xlarge: workers.memory requests 900Gi memory, but a node offers "
            "701.1Gi; "
            "name one of g6e.48xlarge, p4d.24xlarge,",
            id="too-little-memory",
        ),
        pytest.param(
            workers(cpu=400),
            [],
            "workers.cpu: a worker requests 400 cpu, but no known instance type of EKS offers more than 190950m; lower",
            id="no-type",
        ),
        pytest.param(
            WHOLE, ["--provider", "ibm"], '--provider: there is no "ibm"; choose eks, gke, aks', id="provider"
        ),
        pytest.param(
            WHOLE,
            ["--instance", "p5.48xlrge"],
            "--instance: distrain knows no instance type p5.48xlrge with GPUs; did you mean p5.48",
            id="instance",
        ),
        pytest.param(
            WHOLE,
            ["--instance", "m6i.xlarge", "--provider", "gke"],
            "--instance: distrain knows no instance type m6i.xlarge with GPUs; name a type such as g2-standard-4 (L4)",
            id="type-without-gpus",
        ),
        pytest.param(
            WHOLE,
            ["--instance", "P5.48XLARGE"],
            "--instance: distrain knows no instance type P5.48XLARGE with GPUs; did you mean p5.48xlarge?",
            id="instance-in-capitals",
        ),
        pytest.param(
            WHOLE,
            ["--instance", "h100", "--provider", "eks"],
            "--instance: distrain knows no instance type h100 with GPUs; for H100 GPUs give one of p5.48xlarge",
            id="gpu-as-instance",
        ),
        pytest.param(
            workers(nodeSelector={"cloud.google.com/gke-spot": "true"}),
            ["--provider", "gke"],
            "workers.nodeSelector.cloud.google.com/gke-spot: asks for true, but a node group cannot set this label; "
            "remove it, or create the GPU node group yourself, as a spot group with --spot",
            id="spot",
        ),
        pytest.param(
            WHOLE,
            ["--provider", "aks", "--zone", "9"],
            '--zone: "9" is not a zone of aks; write it as in --zone 1',
            id="zone-of-aks",
        ),
        pytest.param(
            WHOLE,
            ["--instance", "a2-highgpu-8g", "--provider", "aks"],
            "--instance: a2-highgpu-8g is a type of GKE, not of AKS; name one of Standard_",
            id="other-provider",
        ),
        pytest.param(
            workers(nodeSelector={KEY: "p4d.24xlarge"}),
            ["--instance", "p5.48xlarge"],
            f"workers.nodeSelector.{KEY}: asks for p4d.24xlarge, but the nodes have p5.48xlarge; give p4d.24",
            id="nodeSelector",
        ),
        pytest.param(
            workers(nodeSelector={"nvidia.com/gpu.product": "A100"}),
            [],
            "workers.nodeSelector.nvidia.com/gpu.product: asks for A100, but a node group cannot set this label; rem",
            id="label-of-an-add-on",
        ),
        pytest.param(
            WHOLE + "launcher: {nodeSelector: {kubernetes.io/arch: arm64}}\n",
            [],
            "launcher.nodeSelector.kubernetes.io/arch: asks for arm64, but the nodes have amd64; remove it",
            id="nodeSelector-of-the-launcher",
        ),
        pytest.param(
            WHOLE + "launcher: {cpu: 90}\n", [], "launcher: its pods do not fit on m6i.16xlarge", id="large-launcher"
        ),
        pytest.param(
            "workers: {replicas: 2, gpus: 8, cpu: 190, memory: 701Gi}\n",
            ["--instance", "g5.48xlarge"],
            "workers.tolerations: the GPU nodes get no taint, because the workers tolerate none, and so other",
            id="launcher-in-the-way",
        ),
        pytest.param(WHOLE, ["--efa", "--provider", "gke"], "--efa: GKE has no EFA; leave out --efa", id="efa-of-gke"),
        pytest.param(
            PARTS, ["--efa", "--instance", "g5.xlarge"], "--efa: g5.xlarge has no EFA interface; name one of", id="efa"
        ),
        pytest.param(WHOLE, ["--name", "My_cluster"], "--name: My_cluster is not a cluster name", id="name"),
        pytest.param(
            WHOLE, ["--region", "US"], "--region: US is not a region of eks; write one such as us-west-2", id="region"
        ),
        pytest.param(WHOLE, ["--zone", "us-east-1a"], "--zone: found only us-east-1a, but eksctl needs", id="one-zone"),
        pytest.param(WHOLE, ["--zone", "east,west"], '--zone: "east" is not a zone of eks; write it as', id="zone"),
        pytest.param(
            WHOLE,
            ["--zone", "us-east-1a,us-west-2a"],
            "--zone: not all zones in us-east-1a,us-west-2a belong to the region",
            id="two-regions",
        ),
        pytest.param(
            WHOLE,
            ["--provider", "gke", "--zone", "us-east1-b,us-east1-c"],
            "--zone: found 2 zones, but",
            id="two-zones",
        ),
        pytest.param(
            WHOLE,
            ["--provider", "gke", "--region", "us-east1"],
            "--zone: is missing, but only some zones of",
            id="no-zone",
        ),
        pytest.param(
            workers(nodeSelector={"topology.kubernetes.io/zone": "us-east-1c"}),
            ["--zone", "us-east-1a,us-east-1b"],
            "workers.nodeSelector.topology.kubernetes.io/zone: asks for us-east-1c, but the nodes have us-east-1a; ",
            id="zone-of-the-values",
        ),
    ],
)
def test_mistake_is_answered_in_one_line(make: Make, values: str, arguments: list[str], words: str) -> None:
    outcome = make(values, *arguments)

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"distrain: {words}"), outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        pytest.param(
            "p4d.24xlarge: 30\ng5.48xlarge cheap\n",
            'prices, line 2: "g5.48xlarge cheap" is not a price; write TYPE',
            id="word",
        ),
        pytest.param(
            "p4d.24xlarge: 30\ng5.48xlarge 16.29\n", 'prices, line 2: "g5.48xlarge 16.29" is not a price', id="no-colon"
        ),
        pytest.param("g5.48xlarge,16.29\n", 'prices, line 1: "g5.48xlarge,16.29" is not a price; write', id="comma"),
        pytest.param("p4d.24xlarge: -3\n", 'prices, line 1: "p4d.24xlarge: -3" is not a price', id="negative"),
        pytest.param(
            "p4d.24xlarge: 3\np4d.24xlarge: 4\n", "prices, line 2: p4d.24xlarge already has a price; remove", id="twice"
        ),
        pytest.param("# nothing\n", "prices contains no price; write TYPE: PRICE", id="empty"),
        pytest.param(
            "p4d.24xlarge: 30\n",
            "prices has no price for m6i.xlarge; add a line `m6i.xlarge: PRICE`",
            id="no-price-of-the-other-nodes",
        ),
        pytest.param(
            "g5.xlarge: 1\n",
            "has no price for any instance type that fits this run; add a line `TYPE: PRICE` for one of g5.48xl",
            id="no-price-of-a-fitting-type",
        ),
        pytest.param(
            "p4d.24xlrge: 30\ng5.xlarge: 1\n",
            "has no price for any instance type that fits this run; add a line `TYPE: PRICE` for one of g5.48xlarge, "
            "g6.48xlarge, g6e.48xlarge, "
            "p4d.24xlarge, p4de.24xlarge, p5.48xlarge, p5en.48xlarge, p3.16xlarge, "
            "p3dn.24xlarge, or correct the types that distrain does not know: p4d.24xlrge",
            id="misspelt-type",
        ),
        pytest.param(
            "# from the list\x85 of May\r\np4d.24xlarge: much\r\n", 'prices, line 2: "p4d.24xlarge: much" is', id="crlf"
        ),
    ],
)
def test_mistake_in_the_prices_names_its_line(make: Make, tmp_path: Path, prices: str, words: str) -> None:
    (tmp_path / "prices").write_text(prices)

    outcome = make(WHOLE, "--prices", "prices")

    assert (outcome.code, outcome.out) == (2, "")
    assert f"distrain: --prices: {words}" in outcome.err


def test_unreadable_prices_are_named(make: Make) -> None:
    outcome = make(WHOLE, "--prices", "none")

    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "--prices: none cannot be read: No such file or directory; name another file" in outcome.err


def test_refused_command_writes_no_file_and_leaves_an_old_one(make: Make, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text("g5.xlarge: 1\n")
    (tmp_path / "made.yaml").write_text("old")

    outcome = make(WHOLE, "--prices", "prices", "-o", "made.yaml", "--force")

    assert outcome.code == 2
    assert (tmp_path / "made.yaml").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.yaml", "prices", "run.yaml"]


def test_existing_file_is_replaced_only_with_force(make: Make, tmp_path: Path) -> None:
    (tmp_path / "prices").write_text(PRICES)
    (tmp_path / "made.yaml").write_text("old")

    assert "already exists" in make(WHOLE, "-o", "made.yaml").err
    assert (tmp_path / "made.yaml").read_text() == "old"
    assert make(WHOLE, "-o", "made.yaml", "--force").code == 0
    assert "ClusterConfig" in (tmp_path / "made.yaml").read_text()


@pytest.mark.parametrize(
    ("profile", "other"),
    [
        pytest.param("eks-p5-efa", "gke", id="eks"),
        pytest.param("gke-a3-high", "eks", id="gke"),
        pytest.param("aks-nd-h100-v5", "eks", id="aks"),
    ],
)
def test_profile_of_another_provider_is_refused(make: Make, profile: str, other: str) -> None:
    outcome = make((PROFILES / f"{profile}.yaml").read_text(), "--provider", other)

    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert "workers.nodeSelector." in outcome.err
