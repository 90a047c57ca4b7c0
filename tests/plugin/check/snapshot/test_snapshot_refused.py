"""Test the snapshots and the arguments that `check` refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distrain import cli
from tests.plugin.check.judging import OF_CHART, Check, kind, list_of
from tests.plugin.objects import Object, node, pod


def test_two_unlike_objects_of_one_name_are_refused_by_name(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    pods = [pod("p", on="a", gpu=gpu) for gpu in ("1", "2", "1")]
    for each, namespace in zip(pods, ("blue", "blue", "red"), strict=True):
        each["metadata"]["namespace"] = namespace
    path.write_text(list_of(*kind("Node", node("a", gpu="8"), node("a", gpu="4")), *kind("Pod", *pods)))

    code, _, err = check("--snapshot", str(path))

    twice = "appears twice, and the two differ; remove the older one"
    names = ("Node a", "Pod p of namespace blue")
    assert (code, err.splitlines()) == (2, [f"distrain: --snapshot: {path}: {name} {twice}" for name in names])


def _with_pod(*volumes: Object, labels: Object | None = None, **container: object) -> str:
    spec = {"nodeName": "one", "containers": [container], "volumes": volumes}
    pod = {"kind": "Pod", "metadata": {"name": "odd", "labels": labels or {}}, "spec": spec}
    return json.dumps({"items": [{"kind": "Node", "metadata": {"name": "one"}}, pod]})


def _with_node(**capacity: object) -> str:
    return json.dumps({"items": [{"kind": "Node", "metadata": {"name": "odd"}, "status": {"allocatable": capacity}}]})


def _with_snapshots(*snapshots: Object) -> str:
    return list_of(*kind("Node", node("a", gpu="8")), *kind("Snapshot", *snapshots))


# A deeply nested object of a kind that a check does not read. The nested object follows another object in the list.
DEEP = ', {"kind": "Event", "a": ' + "[" * 100_000 + "]" * 100_000 + "}"
ODD_CLAIM = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": ""}}}}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("no json", ": it is not valid JSON at line 1, column 1; it may be cut off; ", id="no-json"),
        pytest.param('{"items": []}', " contains no node; give the output of", id="no-node"),
        pytest.param(_with_snapshots({}, {}), " contains 2 snapshots; name a file with only one", id="two-snapshots"),
        pytest.param(
            _with_snapshots({"apiVersion": "distrain/v2"}),
            " has the format distrain/v2 instead of distrain/v1; take the snapshot again",
            id="snapshot-of-another-version",
        ),
        pytest.param('{"items": ' + "[" * 100_000, ": it is nested too deep; give", id="deep-and-cut-off"),
        pytest.param(_with_node(cpu=1)[:-2] + DEEP + "]}", ": it is nested too deep; give", id="deep"),
        pytest.param(
            _with_pod(resources=5), ": Pod odd: containers[0].resources is of another type; ", id="no-resources"
        ),
        pytest.param(_with_pod(resources={"requests": {"cpu": "much"}}), ": Pod odd: much is no quantity", id="no-cpu"),
        pytest.param(
            _with_pod(ports=[{"hostPort": "80"}]),
            ": Pod odd: containers[0].ports[0].hostPort is of another type; ",
            id="no-port",
        ),
        pytest.param(_with_node(cpu="many"), ": Node odd: many is no quantity", id="no-capacity"),
        pytest.param(
            _with_pod(labels=OF_CHART, resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "4GB"}}),
            ": Pod odd: 4GB is no quantity",
            id="no-limit-of-the-release",
        ),
        pytest.param(
            _with_pod(ODD_CLAIM, labels=OF_CHART),
            ": Pod odd: an empty text is no quantity",
            id="no-storage-of-the-release",
        ),
    ],
)
def test_file_that_is_something_else_is_refused(check: Check, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(content)

    code, _, err = check("--snapshot", str(path))

    assert code == 2
    assert err.startswith(f"distrain: --snapshot: {path}{words}")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--offline"], "--offline: without the cluster the nodes are unknown", id="offline-without-nodes"),
        pytest.param(["--set", "a=b", "--snapshot", "x"], "--manifest: cannot be combined with values", id="values"),
        pytest.param(["--why", "a", "-o", "json"], "--why: explains the node in text only; leave out one", id="form"),
    ],
)
def test_contradicting_arguments_are_refused(check: Check, arguments: list[str], words: str) -> None:
    code, _, err = check(*arguments)

    assert code == 2
    assert words in err


def test_stdin_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--manifest", "-", "--snapshot", "-"]) == 2
    assert "--manifest already reads stdin" in capsys.readouterr().err
