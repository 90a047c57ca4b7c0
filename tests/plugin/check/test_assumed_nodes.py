"""Test `check` with the nodes that --assume-nodes describes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distrain import cli
from distrain.check.assumed_nodes import assumed_nodes
from distrain.errors import ValuesError
from tests.plugin.check.judging import GPU, Check


def test_assumed_nodes_are_added_to_those_of_a_snapshot(check: Check, snapshot: Path) -> None:
    code, out, _ = check("--snapshot", str(snapshot), "--assume-nodes", "1x8", "-o", "json")

    answer = json.loads(out)
    assert (code, answer["verdict"], answer["gpus"]["total"]) == (0, "fits", 16)
    assert answer["assumed"] == ["1 node exists (--assume-nodes)"]


def test_assumed_nodes_alone_need_no_cluster(check: Check) -> None:
    assert check("--offline", "--assume-nodes", "1x8")[0] == 0
    assert check("--offline", "--assume-nodes", "1x4")[0] == 11


def test_total_is_spread_over_the_assumed_nodes(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))

    assert cli.run(["check", "--set", "gpus=32", "--offline", "--assume-nodes", "4x8"]) == 0
    assert capsys.readouterr().out.startswith("fits: 4 workers of 8 nvidia.com/gpu each")


def test_total_is_spread_over_the_nodes_of_a_snapshot_and_those_to_come(
    helm4: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: Path
) -> None:
    monkeypatch.setenv("HELM_BIN", str(helm4))

    assert cli.run(["check", "--set", "gpus=16", "--snapshot", str(snapshot), "--assume-nodes", "2x8"]) == 0
    assert capsys.readouterr().out.startswith("fits: 2 workers of 8 nvidia.com/gpu each")


def test_offline_without_a_snapshot_names_no_file(check: Check) -> None:
    assert "LimitRanges, PriorityClasses (no cluster is asked)" in check("--offline", "--assume-nodes", "1x8")[1]


def test_assumed_nodes_have_the_stated_properties() -> None:
    found = assumed_nodes(["2x8:cpu=96,memory=1Ti,pool=gpu,topology.kubernetes.io/zone=a", "1x4"], GPU)

    assert [each.metadata.name for each in found] == ["assumed-1-1", "assumed-1-2", "assumed-2-1"]
    first, last = found[0], found[-1]
    assert (first.status.allocatable or {})["cpu"] == "96"
    assert (first.status.allocatable or {})[GPU] == 8
    assert (last.status.allocatable or {})[GPU] == 4
    assert first.metadata.labels == {
        "kubernetes.io/hostname": "assumed-1-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "pool": "gpu",
        "topology.kubernetes.io/zone": "a",
    }


def test_devices_and_huge_pages_of_assumed_nodes_are_resources() -> None:
    (found,) = assumed_nodes(
        ["1x8:hugepages-2Mi=10Gi,vpc.amazonaws.com/efa=32,topology.kubernetes.io/rack=3,rack=4"], GPU
    )

    offered, labels = found.status.allocatable or {}, found.metadata.labels or {}
    assert (offered["hugepages-2Mi"], offered["vpc.amazonaws.com/efa"]) == ("10Gi", "32")
    assert not {"topology.kubernetes.io/rack", "rack"} & offered.keys()
    assert (labels["topology.kubernetes.io/rack"], labels["rack"], labels["vpc.amazonaws.com/efa"]) == ("3", "4", "32")
    assert "hugepages-2Mi" not in labels


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param("4x8:hugepages-2Mi=many", "4x8:hugepages-2Mi=many: many is no quantity", id="huge-pages"),
        pytest.param(f"4x8:{GPU}=4", "4x8:nvidia.com/gpu=4: the number before the colon already sets", id="gpus"),
        pytest.param("four", "four does not describe nodes; write NODESxGPUS, such as 4x8", id="no-number"),
        pytest.param("4x8:cpu", "cpu in 4x8:cpu has no value", id="no-value"),
        pytest.param("4x8:memory=1TB", "4x8:memory=1TB: 1TB is no quantity", id="no-quantity"),
        pytest.param("4x8:cpu=-3", "4x8:cpu=-3: a node cannot have -3", id="negative"),
        pytest.param("4x8:a b=c", "4x8:a b=c: no node can have the label a b=c", id="no-key-of-a-label"),
        pytest.param("4x8:pool=a/b", "4x8:pool=a/b: no node can have the label pool=a/b", id="no-value-of-a-label"),
        pytest.param(
            "4x8:cpus=96", "4x8:cpus=96: cpus would be read as a node label; did you mean cpu?", id="misspelt-amount"
        ),
    ],
)
def test_nodes_that_cannot_be_are_refused(words: str, found: str) -> None:
    with pytest.raises(ValuesError, match=f"^--assume-nodes: {found}"):
        assumed_nodes([words], GPU)
