"""Test the explanation of one node, for `check --why`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugin.check.judging import Check, kind, list_of
from tests.plugin.objects import Object, mpi_job, node, pod, tainted


def _why(check: Check, tmp_path: Path, cluster: list[Object], running: list[Object], job: Object) -> list[str]:
    path = tmp_path / "nodes.json"
    path.write_text(list_of(*kind("Node", *cluster), *kind("Pod", *running)))
    code, out, _ = check("--snapshot", str(path), "--why", "a", job=job)
    assert code == 0
    return out.splitlines()


def test_one_node_is_explained(check: Check, tmp_path: Path) -> None:
    running = [pod("p", on="a", gpu="6", cpu="2500m")]

    lines = _why(check, tmp_path, [node("a", gpu="8")], running, mpi_job(workers=2))

    assert lines == [
        "a: takes pods",
        "2 workers: this node holds 0 by itself",
        "  nvidia.com/gpu           asks 4, free 2 of 8  <- short",
        "  pods                     asks 1, free 109 of 110",
        "  refused: Insufficient nvidia.com/gpu",
        "1 launcher: this node holds 109 by itself",
        "  cpu                      asks 100m, free 13500m of 16",
        "  memory                   asks 512Mi, free 64Gi of 64Gi",
        "  pods                     asks 1, free 109 of 110",
    ]


@pytest.mark.parametrize(
    ("free", "workers", "lines"),
    [
        pytest.param("8", 4, ["  takes no more than 2: Insufficient nvidia.com/gpu"], id="some"),
        pytest.param("3", 4, ["  refused: Insufficient nvidia.com/gpu"], id="none"),
        pytest.param("8", 2, [], id="all"),
    ],
)
def test_node_says_why_it_takes_no_more(
    check: Check, tmp_path: Path, free: str, workers: int, lines: list[str]
) -> None:
    more = [node("b", gpu="64")]

    told = _why(check, tmp_path, [node("a", gpu=free), *more], [], mpi_job(workers=workers))

    assert [line for line in told if "refused" in line or "takes no more" in line] == lines


def test_memory_of_a_node_is_shown_in_units_that_people_read(check: Check, tmp_path: Path) -> None:
    cluster = [node("a", {"ephemeral-storage": "94992122Ki"}, memory="263856440Ki", gpu="8")]
    worker = {"containers": [{"name": "w", "resources": {"requests": {"memory": "96Gi", "ephemeral-storage": "1Gi"}}}]}

    lines = _why(check, tmp_path, cluster, [pod("p", on="a", memory="163840001Ki")], mpi_job(worker=worker))

    assert "  memory                   asks 96Gi, free 95.3Gi of 251.6Gi  <- short" in lines
    assert "  ephemeral-storage        asks 1Gi, free 90.5Gi of 90.5Gi" in lines


def test_taints_labels_ports_and_rules_of_a_node_are_shown(check: Check, tmp_path: Path) -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "distrain"}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    port = {"containerPort": 80, "hostPort": 80}
    worker: dict[str, Any] = {"affinity": rules, "containers": [{"name": "w", "ports": [port]}]}
    holder = pod("p", on="a")
    holder["spec"]["containers"][0]["ports"] = [port]

    cluster = [tainted(node("a", labels={"zone": "1"}, cordoned=True), "team=blue:NoSchedule")]
    lines = _why(check, tmp_path, cluster, [holder], mpi_job(worker=worker))

    assert lines[0] == "a: cordoned; taints team:NoSchedule"
    assert "  host port TCP 0.0.0.0:80 taken  <- short" in lines
    assert "  refused: node(s) were unschedulable" in lines
    assert "  the job's own pods decide, too: pod anti-affinity rules" in lines
    assert "  label zone=1" in lines


def test_node_that_is_not_there_is_refused(check: Check, snapshot: Path) -> None:
    code, _, err = check("--snapshot", str(snapshot), "--why", "z")

    assert (code, err) == (2, "distrain: --why: there is no node z; existing nodes: a\n")
