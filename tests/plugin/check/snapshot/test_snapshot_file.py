"""Test checking a job against a snapshot of a cluster."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.check.judging import OF_CHART, Check, chart_job, check_snapshot, kind, list_of
from tests.plugin.objects import Object, batch_job, definition, mpi_job, node, pod, with_images


def test_file_is_judged_without_a_command_line() -> None:
    cluster = list_of(*kind("Node", node("a", gpu="8")), {"kind": "Service", "metadata": {}}).encode()

    assert check_snapshot(cluster, chart_job(), "team").verdict == "fits"


def test_snapshot_is_judged_without_a_cluster(check: Check, snapshot: Path) -> None:
    code, out, err = check("--snapshot", str(snapshot))

    assert (code, err) == (10, "")
    assert out.startswith("busy: workers.replicas: 2 workers fit only once other pods end or nodes come back;")


def test_snapshot_may_come_from_stdin(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    content = list_of(*kind("Node", node("a", gpu="8"))).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert check("--snapshot", "-")[0] == 0


def test_snapshot_may_be_compressed(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(list_of(*kind("Node", node("a", gpu="8"))).encode())
    (tmp_path / "nodes.json.gz").write_bytes(content)
    (tmp_path / "torn.gz").write_bytes(content[:-20])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert check("--snapshot", str(tmp_path / "nodes.json.gz"))[0] == 0
    assert check("--snapshot", "-")[0] == 0
    code, _, err = check("--snapshot", str(tmp_path / "torn.gz"))
    assert (code, "torn.gz is cut off or damaged: " in err) == (2, True)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "compressed"])
def test_snapshot_may_be_written_by_powershell(
    check: Check, tmp_path: Path, pack: Callable[[bytes], bytes], encoding: str
) -> None:
    content = list_of(*kind("Node", node("a", gpu="8"))).replace("\n", "\r\n").encode(encoding)
    (tmp_path / "nodes").write_bytes(pack(content))

    assert check("--snapshot", str(tmp_path / "nodes"))[0] == 0


def test_snapshot_is_judged_for_the_namespace_that_is_given(check: Check, tmp_path: Path) -> None:
    quota = {"metadata": {"name": "q", "namespace": "blue"}, "status": {"hard": {"pods": "1"}}}
    path = tmp_path / "nodes.json"
    path.write_text(list_of(*kind("Node", node("a", gpu="8")), *kind("ResourceQuota", quota)))

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
    path.write_text(list_of(*kind("Node", node("a", gpu="8")), *others))

    found, out, _ = check("--snapshot", str(path), "-o", "json", job=mpi_job(worker={"serviceAccountName": "trainer"}))

    assert found == code
    assert words in " ".join([*json.loads(out)["unseen"], *(each["reason"] for each in json.loads(out)["reasons"])])


def test_pods_of_the_release_make_room_in_a_snapshot_too(check: Check, tmp_path: Path) -> None:
    own = pod("p", on="a", gpu="8")
    labels = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    own["metadata"].update({"labels": labels, "namespace": "default"})
    path = tmp_path / "nodes.json"
    path.write_text(list_of(*kind("Node", node("a", gpu="8")), *kind("Pod", own)))

    assert check("--snapshot", str(path))[0] == 10
    assert check("--snapshot", str(path), "--release", "run1")[0] == 0


def test_pod_that_was_written_by_hand_gets_the_defaults_of_the_api_server(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    port = {"ports": [{"containerPort": 8080}]}
    agent = {"nodeName": "a", "hostNetwork": True, "containers": [{"name": "main", **port}]}
    path.write_text(
        list_of(*kind("Node", node("a", gpu="8")), *kind("Pod", {"metadata": {"name": "p"}, "spec": agent}))
    )
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

    answer = check_snapshot(list_of(*cluster).encode(), chart_job(worker=urgent, launcher=urgent), "team")

    assert answer.verdict == ("busy" if goes_first else "fits")


def test_anti_affinity_of_a_pod_that_was_written_by_hand_has_its_own_labels(check: Check, tmp_path: Path) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "matchLabelKeys": ["team"], "labelSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shy = pod("p", on="a")
    shy["metadata"] |= {"namespace": "default", "labels": {"team": "blue"}}
    shy["spec"]["affinity"] = rules
    path = tmp_path / "nodes.json"
    path.write_text(
        list_of(*kind("Node", node("a", gpu="8", labels={"kubernetes.io/hostname": "a"})), *kind("Pod", shy))
    )

    assert check("--snapshot", str(path))[0] == 0


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
    path.write_text(list_of(*kind("Node", node("a", gpu="8")), *items))

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
    path.write_text(list_of(*kind("Node", node("a", gpu="8")), *kind("ResourceQuota", quota)))

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
    path.write_text(list_of(*kind("Node", node("a", gpu="8")), *found))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}

    job = {"apiVersion": "v1", "kind": "List", "items": [account, mpi_job()]}
    assert check("--snapshot", str(path), job=job)[0] == code
