"""Test for which nodes a check reads the pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.apiserver.cluster import connect
from distrain.apiserver.target import Target
from distrain.check.candidate_nodes import FEW, candidate_nodes, unread
from distrain.check.live_cluster import check
from distrain.workload.manifest import Job, from_manifest
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object, node, nodes, pod, tainted, with_images

OTHERS = [node(f"cpu-{number}") for number in range(4)]


def _job(**spec: Any) -> Job:
    """Return a job with two pods that request 4 GPUs each."""
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]
    template = {"spec": with_images({"containers": containers, "restartPolicy": "Never", **spec})}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    return from_manifest(yaml.safe_dump({**job, "spec": {"parallelism": 2, "template": template}}), "--manifest")


def _candidates(job: Job, *cluster: Object) -> list[str] | None:
    return candidate_nodes(job, nodes(*OTHERS, *cluster))


def test_nodes_too_small_for_any_pod_are_none() -> None:
    assert _candidates(_job(), node("large", gpu="4"), node("small", gpu="3")) == ["large"]


@pytest.mark.parametrize(
    ("spec", "candidate"),
    [
        pytest.param({"nodeSelector": {"pool": "train"}}, node("b", gpu="4", labels={"pool": "train"}), id="label"),
        pytest.param(
            {"tolerations": [{"key": "train", "operator": "Exists"}]},
            tainted(node("b", gpu="4"), "train:NoSchedule"),
            id="toleration",
        ),
    ],
)
def test_nodes_that_admit_no_pod_are_none(spec: Object, candidate: Object) -> None:
    other = tainted(node("a", gpu="4"), "other:NoSchedule")

    assert _candidates(_job(**spec), other, candidate) == ["b"]


@pytest.mark.parametrize(
    "ill",
    [
        pytest.param(node("a", gpu="8", cordoned=True), id="cordoned"),
        pytest.param(tainted(node("a", gpu="8"), "node.kubernetes.io/not-ready:NoExecute"), id="not-ready"),
    ],
)
def test_nodes_that_would_admit_pods_once_they_recover_count(ill: Object) -> None:
    # These nodes may recover, so the check must answer `busy`. If it ignored them, it would answer `impossible` or
    # `fits`.
    assert _candidates(_job(), ill) == ["a"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"affinity": {"podAffinity": {}}}, id="affinity"),
        pytest.param({"affinity": {"podAntiAffinity": {}}}, id="anti-affinity"),
        pytest.param({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, id="spread"),
    ],
)
def test_rules_between_pods_need_all_pods(spec: Object) -> None:
    assert _candidates(_job(**spec), node("a", gpu="8")) is None


@pytest.mark.parametrize(("count", "few"), [(FEW, True), (FEW + 1, False)])
def test_many_candidates_need_all_pods(count: int, few: bool) -> None:
    gpus = [node(f"gpu-{number}", gpu="8") for number in range(count)]
    cpus = [node(f"cpu-{number}") for number in range(2 * FEW)]

    found = candidate_nodes(_job(), nodes(*gpus, *cpus))

    assert (found is not None) == few


def test_launcher_that_may_run_anywhere_takes_all_pods() -> None:
    launcher = {"apiVersion": "v1", "kind": "Pod", **pod("launcher", cpu="1")}

    assert _candidates(from_manifest(yaml.safe_dump(launcher), "--manifest"), node("a", gpu="8")) is None


def test_check_counts_only_what_it_reads_and_says_so(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"] = [*OTHERS, node("a", gpu="8"), node("b", gpu="8")]
    api.answers["/api/v1/pods"] = [pod("p", on="a", gpu="8"), pod("q", on="cpu-0", cpu="16")]
    api.answers |= {f"/api/v1/namespaces/team/{plural}": [] for plural in ("resourcequotas", "limitranges")}

    report = check(connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team")), _job(), "team")

    assert (report.verdict, report.gpus.free, report.gpus.total) == ("fits", 8, 16)
    assert report.unseen == [
        "pods on the 4 nodes that take no pod of the job; if one has an anti-affinity, it could keep the job from "
        "other nodes"
    ]
    assert not any("cpu-0" in request for request in api.requests)


def test_one_unread_node_is_not_called_nodes() -> None:
    assert unread(1).startswith("pods on the node that takes no pod of the job; ")
