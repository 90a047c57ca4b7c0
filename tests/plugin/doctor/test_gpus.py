"""Test what `doctor` reports about nodes: whether they accept pods, and their GPUs."""

from __future__ import annotations

import pytest

from tests.plugin.doctor.examining import Doctor
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import node, tainted

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
V100 = {"nvidia.com/gpu.product": "Tesla-V100"}


def test_free_gpus_are_unknown_without_pods(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/pods"] = 403

    found = examine()["nvidia.com/gpu"]

    assert found["found"].startswith("8 GPUs, how many are free is unknown")
    assert found["details"]["free"] is None


def test_gpus_are_counted_by_model(cluster: FakeApi, examine: Doctor) -> None:
    nodes = [node("a", gpu="8", labels=A100), node("b", gpu="8", labels=A100), node("c", gpu="4", labels=V100)]
    cluster.answers["/api/v1/nodes"] = [*nodes, node("d", {"amd.com/gpu": "2"}), node("e", gpu="0")]

    found = [item["details"] for item in examine().answer["findings"] if item["name"].endswith("/gpu")]

    assert [tuple(details.values()) for details in found] == [
        ("amd.com/gpu", "", 1, 2, 2),
        ("nvidia.com/gpu", "NVIDIA-A100-SXM4-80GB", 2, 16, 13),
        ("nvidia.com/gpu", "Tesla-V100", 1, 4, 4),
    ]


def test_taints_of_gpu_nodes_are_named(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [tainted(node("a", gpu="8"), "nvidia.com/gpu=present:NoSchedule")]

    found = examine()["nvidia.com/gpu"]

    assert found["found"].endswith("; taints on them: nvidia.com/gpu:NoSchedule")
    assert found["next"] == "tolerate them with workers.tolerations"


def test_gpus_of_a_cordoned_node_are_not_free(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", gpu="8"), node("b", gpu="8", cordoned=True)]

    found = examine()

    assert found["nvidia.com/gpu"]["details"]["free"] == 5
    assert found.says("nodes") == ("ok", "1 of 2 nodes take pods")


def test_cluster_whose_nodes_all_refuse_pods_is_not_ready(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", gpu="8", cordoned=True)]

    found = examine()

    assert (found.code, found.answer["jobs"]) == (11, [])
    assert found.says("nodes") == ("missing", "0 of 1 node takes pods")


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(A100, id="model"),
        pytest.param({"nvidia.com/gpu.present": "true"}, id="feature-discovery"),
        pytest.param({"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, id="pci"),
    ],
)
def test_missing_device_plugin_is_reported(cluster: FakeApi, examine: Doctor, labels: dict[str, str]) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", labels=labels), node("b")]

    found = examine()

    missing = found["device plugin"]
    assert (missing["state"], missing["details"]) == ("missing", {"nodes": ["a"]})
    assert "and no GPU to offer: a" in missing["found"]
    assert missing["next"].endswith("`kubectl get pods --all-namespaces --field-selector spec.nodeName=a`")
    # A node without GPUs is no failure, because jobs on CPUs can still run.
    assert found.code == 0


def test_cluster_without_gpus_is_told_how_to_train(cluster: FakeApi, examine: Doctor) -> None:
    cluster.answers["/api/v1/nodes"] = [node("a", labels={"nvidia.com/gpu.present": "false"})]

    found = examine()

    assert found["GPUs"]["state"] == "absent"
    assert found["GPUs"]["next"] == "add GPU nodes, or train on CPUs with workers.gpus=0"
    assert not [finding for finding in found.answer["findings"] if finding["name"] == "device plugin"]
