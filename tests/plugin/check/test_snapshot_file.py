"""Test checks without a cluster: a snapshot, assumed nodes, and the explanation of one node."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain import cli
from distrain.check.assumed_nodes import assumed_nodes
from distrain.errors import ValuesError
from tests.plugin.check.judging import GPU, chart_job, check_snapshot, kind
from tests.plugin.objects import Object, batch_job, definition, mpi_job, node, pod, tainted, with_images

Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Check:
    """Run `check` on an MPIJob's manifest."""
    manifest = tmp_path / "job.yaml"

    def run(*arguments: str, job: Object | None = None) -> tuple[int, str, str]:
        manifest.write_text(yaml.safe_dump(job or mpi_job()))
        code = cli.run(["check", "--manifest", str(manifest), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    items = [*kind("Node", node("a", gpu="8", labels={"zone": "1"})), *kind("Pod", pod("p", on="a", gpu="2"))]
    path = tmp_path / "nodes.json"
    path.write_text(_list(*items))
    return path


def _list(*items: Object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def test_file_is_judged_without_a_command_line() -> None:
    cluster = _list(*kind("Node", node("a", gpu="8")), {"kind": "Service", "metadata": {}}).encode()

    assert check_snapshot(cluster, chart_job(), "team").verdict == "fits"


def test_snapshot_is_judged_without_a_cluster(check: Check, snapshot: Path) -> None:
    code, out, err = check("--snapshot", str(snapshot))

    assert (code, err) == (10, "")
    assert out.startswith("busy: workers.replicas: 2 workers fit only once other pods end or nodes come back;")


def test_snapshot_may_come_from_stdin(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    content = _list(*kind("Node", node("a", gpu="8"))).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert check("--snapshot", "-")[0] == 0


def test_snapshot_may_be_compressed(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(_list(*kind("Node", node("a", gpu="8"))).encode())
    (tmp_path / "nodes.json.gz").write_bytes(content)
    (tmp_path / "torn.gz").write_bytes(content[:-20])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert check("--snapshot", str(tmp_path / "nodes.json.gz"))[0] == 0
    assert check("--snapshot", "-")[0] == 0
    code, _, err = check("--snapshot", str(tmp_path / "torn.gz"))
    assert (code, "torn.gz is cut off or damaged: " in err) == (2, True)


def test_snapshot_is_judged_for_the_namespace_that_is_given(check: Check, tmp_path: Path) -> None:
    quota = {"metadata": {"name": "q", "namespace": "blue"}, "status": {"hard": {"pods": "1"}}}
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *kind("ResourceQuota", quota)))

    assert check("--snapshot", str(path))[0] == 0
    assert check("--snapshot", str(path), "-n", "blue")[0] == 11


@pytest.mark.parametrize(
    ("others", "code", "words"),
    [
        pytest.param(
            kind("Namespace", {"metadata": {"name": "other"}}),
            0,
            "namespace default, which is not there: an empty one is judged",
            id="namespace",
        ),
        pytest.param(
            kind("ServiceAccount", {"metadata": {"name": "trainer", "namespace": "other"}}),
            11,
            'serviceaccount "trainer" not found',
            id="service-account",
        ),
        pytest.param(
            [definition("MPIJob", "v1")],
            11,
            'no matches for kind "MPIJob" in version "kubeflow.org/v2beta1"',
            id="kind",
        ),
        pytest.param(
            [definition("MPIJob")], 0, "whether these are there: ServiceAccount trainer", id="not-in-the-file"
        ),
        pytest.param([], 0, "whether the cluster serves MPIJob of kubeflow.org/v2beta1", id="no-kinds-in-the-file"),
    ],
)
def test_what_the_api_server_refuses_is_judged_where_the_file_tells_it(
    check: Check, tmp_path: Path, others: list[Object], code: int, words: str
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *others))

    found, out, _ = check("--snapshot", str(path), "-o", "json", job=mpi_job(worker={"serviceAccountName": "trainer"}))

    assert found == code
    assert words in " ".join([*json.loads(out)["unseen"], *(each["reason"] for each in json.loads(out)["reasons"])])


def test_pods_of_the_release_make_room_in_a_snapshot_too(check: Check, tmp_path: Path) -> None:
    own = pod("p", on="a", gpu="8")
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    own["metadata"].update({"labels": labels, "namespace": "default"})
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *kind("Pod", own)))

    assert check("--snapshot", str(path))[0] == 10
    assert check("--snapshot", str(path), "--release", "run1")[0] == 0


def test_pod_that_was_written_by_hand_gets_the_defaults_of_the_api_server(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    port = {"ports": [{"containerPort": 8080}]}
    agent = {"nodeName": "a", "hostNetwork": True, "containers": [{"name": "main", **port}]}
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *kind("Pod", {"metadata": {"name": "p"}, "spec": agent})))
    worker = {"hostNetwork": True, "containers": [{"name": "worker", **port}]}

    code, out, _ = check("--snapshot", str(path), job=mpi_job(workers=1, worker=worker))

    assert code == 10
    assert "didn't have free ports" in out


@pytest.mark.parametrize(
    ("spec", "own", "goes_first"),
    [
        pytest.param({"priorityClassName": "high"}, 50, True, id="class"),
        pytest.param({"priorityClassName": "system-node-critical"}, 50, True, id="system-class"),
        pytest.param({"priorityClassName": "low"}, 50, False, id="lower-class"),
        pytest.param({}, 50, True, id="global-default"),
        pytest.param({}, 150, False, id="lowest-global-default"),
        pytest.param({"priority": 0}, 50, False, id="stated"),
    ],
)
def test_nominated_pod_that_was_written_by_hand_has_its_classs_priority(
    spec: Object, own: int, goes_first: bool
) -> None:
    waiting = pod("p", gpu="8", phase="Pending")
    waiting["status"]["nominatedNodeName"] = "a"
    waiting["spec"].update(spec)
    values = {"highest": 200, "high": 100, "low": 10, "job": own}
    classes = [{"metadata": {"name": name}, "value": value} for name, value in values.items()]
    classes[0]["globalDefault"] = classes[1]["globalDefault"] = True
    cluster = [*kind("Node", node("a", gpu="8")), *kind("Pod", waiting), *kind("PriorityClass", *classes)]
    urgent: Object = {"priorityClassName": "job"}

    answer = check_snapshot(_list(*cluster).encode(), chart_job(worker=urgent, launcher=urgent), "team")

    assert answer.verdict == ("busy" if goes_first else "fits")


def test_anti_affinity_of_a_pod_that_was_written_by_hand_has_its_own_labels(check: Check, tmp_path: Path) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["team"], "labelSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shy = pod("p", on="a")
    shy["metadata"] |= {"namespace": "default", "labels": {"team": "blue"}}
    shy["spec"]["affinity"] = rules
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", node("a", gpu="8", labels={"kubernetes.io/hostname": "a"})), *kind("Pod", shy)))

    assert check("--snapshot", str(path))[0] == 0


OF_CHART = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
OWN = pod("p", on="a", gpu="4")
OWN["metadata"] |= {"labels": OF_CHART, "namespace": "default"}
PODS = {"metadata": {"name": "q", "namespace": "default"}, "status": {"hard": {"pods": "3"}, "used": {"pods": "2"}}}


@pytest.mark.parametrize(
    ("items", "workers", "code"),
    [
        pytest.param(kind("Node", *2 * [node("a", gpu="8")]), 4, 11, id="node"),
        pytest.param(kind("Pod", *2 * [pod("p", on="a", gpu="4")]), 1, 0, id="pod"),
        pytest.param([*kind("Pod", *2 * [OWN]), *kind("ResourceQuota", PODS)], 2, 10, id="pod-of-the-release"),
        pytest.param(kind("Pod", *2 * [pod("", on="a", gpu="4")]), 1, 10, id="without-a-name"),
    ],
)
def test_object_that_is_twice_in_a_file_counts_once(
    check: Check, tmp_path: Path, items: list[Object], workers: int, code: int
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *items))

    assert check("--snapshot", str(path), "--release", "run1", job=mpi_job(workers=workers))[0] == code


def test_control_characters_of_a_name_are_shown_escaped(check: Check, snapshot: Path) -> None:
    job = batch_job("a\x1b[31mred\x9b", {"spec": with_images({"containers": [{"name": "c"}]})})

    code, out, _ = check("--snapshot", str(snapshot), job=job)

    assert (code, "a\\x1b[31mred\\x9b" in out, "\x1b" in out) == (11, True, False)
    assert "a\\u001b[31mred\\u009b" in check("--snapshot", str(snapshot), "-o", "json", job=job)[1]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_characters_that_cannot_be_seen_are_shown_escaped(check: Check, tmp_path: Path, form: str) -> None:
    metadata = {"name": "a\u202e\u2066b\u200b\x7f\u2060\U000e0041é", "namespace": "default"}
    path = tmp_path / "nodes.json"
    quota = {"metadata": metadata, "spec": {"hard": {"pods": "0"}}}
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *kind("ResourceQuota", quota)))

    _, out, _ = check("--snapshot", str(path), "-o", form)

    assert r"a\u202e\u2066b\u200b\x7f\u2060\U000e0041é" in out
    assert all(line.isprintable() for line in out.split("\n"))


@pytest.mark.parametrize(
    ("accounts", "code"),
    [
        pytest.param(["trainer", "other"], 0, id="there"),
        pytest.param(["other"], 10, id="not-there"),
        pytest.param([], 10, id="kind-not-in-the-file"),
    ],
)
def test_object_of_the_manifest_that_exists_uses_no_more_of_a_quota(
    check: Check, tmp_path: Path, accounts: list[str], code: int
) -> None:
    hard = {"count/serviceaccounts": "2"}
    quota = {"metadata": {"name": "q", "namespace": "default"}, "status": {"hard": hard, "used": hard}}
    metadata = [{"name": name, "namespace": "default"} for name in accounts]
    found = [*kind("ServiceAccount", *({"metadata": each} for each in metadata)), *kind("ResourceQuota", quota)]
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", node("a", gpu="8")), *found))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}

    job = {"apiVersion": "v1", "kind": "List", "items": [account, mpi_job()]}
    assert check("--snapshot", str(path), job=job)[0] == code


def test_two_unlike_objects_of_one_name_are_refused_by_name(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    pods = [pod("p", on="a", gpu=gpu) for gpu in ("1", "2", "1")]
    for each, namespace in zip(pods, ("blue", "blue", "red"), strict=True):
        each["metadata"]["namespace"] = namespace
    path.write_text(_list(*kind("Node", node("a", gpu="8"), node("a", gpu="4")), *kind("Pod", *pods)))

    code, _, err = check("--snapshot", str(path))

    twice = "is there twice, and the two differ; remove the older one"
    names = ("Node a", "Pod p of namespace blue")
    assert (code, err.splitlines()) == (2, [f"distrain: --snapshot: {path}: {name} {twice}" for name in names])


def _with_pod(*volumes: Object, labels: Object | None = None, **container: object) -> str:
    spec = {"nodeName": "one", "containers": [container], "volumes": volumes}
    pod = {"kind": "Pod", "metadata": {"name": "odd", "labels": labels or {}}, "spec": spec}
    return json.dumps({"items": [{"kind": "Node", "metadata": {"name": "one"}}, pod]})


def _with_node(**capacity: object) -> str:
    return json.dumps({"items": [{"kind": "Node", "metadata": {"name": "odd"}, "status": {"allocatable": capacity}}]})


def _with_snapshots(*snapshots: Object) -> str:
    return _list(*kind("Node", node("a", gpu="8")), *kind("Snapshot", *snapshots))


# An object of no kind that is judged, after another object of a list.
DEEP = ', {"kind": "Event", "a": ' + "[" * 100_000 + "]" * 100_000 + "}"
ODD_CLAIM = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": ""}}}}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("no json", ": it is no JSON at line 1, column 1; it may be cut off; ", id="no-json"),
        pytest.param('{"items": []}', " holds no node; it takes the output of", id="no-node"),
        pytest.param(_with_snapshots({}, {}), " holds 2 snapshots; name the file of one", id="two-snapshots"),
        pytest.param(
            _with_snapshots({"apiVersion": "distrain/v2"}),
            " is of form distrain/v2 instead of distrain/v1; take it again",
            id="snapshot-of-another-version",
        ),
        pytest.param('{"items": ' + "[" * 100_000, ": it is nested too deep; it takes", id="deep-and-cut-off"),
        pytest.param(_with_node(cpu=1)[:-2] + DEEP + "]}", ": it is nested too deep; it takes", id="deep"),
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


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param("four", "four is no number of nodes; write count x GPUs, such as 4x8", id="no-number"),
        pytest.param("4x8:cpu", "cpu in 4x8:cpu has no value", id="no-value"),
        pytest.param("4x8:memory=1TB", "4x8:memory=1TB: 1TB is no quantity", id="no-quantity"),
        pytest.param("4x8:cpu=-3", "4x8:cpu=-3: a node cannot have -3", id="negative"),
        pytest.param("4x8:a b=c", "4x8:a b=c: no node can have the label a b=c", id="no-key-of-a-label"),
        pytest.param("4x8:pool=a/b", "4x8:pool=a/b: no node can have the label pool=a/b", id="no-value-of-a-label"),
        pytest.param("4x8:cpus=96", "4x8:cpus=96: cpus would be a label; did you mean cpu?", id="misspelt-amount"),
    ],
)
def test_nodes_that_cannot_be_are_refused(words: str, found: str) -> None:
    with pytest.raises(ValuesError, match=f"^--assume-nodes: {found}"):
        assumed_nodes([words], GPU)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--offline"], "--offline: nothing says what nodes there are", id="offline-without-nodes"),
        pytest.param(["--set", "a=b", "--snapshot", "x"], "--manifest: it goes without values", id="values"),
    ],
)
def test_contradicting_arguments_are_refused(check: Check, arguments: list[str], words: str) -> None:
    code, _, err = check(*arguments)

    assert code == 2
    assert words in err


def test_stdin_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", "--manifest", "-", "--snapshot", "-"]) == 2
    assert "stdin is --manifest's already" in capsys.readouterr().err


def _why(check: Check, tmp_path: Path, cluster: list[Object], running: list[Object], job: Object) -> list[str]:
    path = tmp_path / "nodes.json"
    path.write_text(_list(*kind("Node", *cluster), *kind("Pod", *running)))
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

    assert (code, err) == (2, "distrain: --why: there is no node z; there is a\n")
