"""Test `check` as a user runs it: with real Helm, the real chart, and a cluster's API on loopback."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin.fake_api import FakeApi, release_secret, write_kubeconfig
from tests.plugin.objects import node, pod
from tests.plugin.program import Outcome, Run
from tests.plugin.program import hold as _hold
from tests.plugin.program import wrote_nothing as _wrote_nothing


def test_job_that_fits_exits_0_with_the_answer_on_stdout(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "--set", "workers.gpus=4")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("fits: 2 workers of 4 nvidia.com/gpu each and 1 launcher of 100m cpu")
    assert " ".join(outcome.out.split()).endswith("; 8 of 8 GPUs free")


@pytest.mark.parametrize(
    ("replicas", "gpus", "code", "verdict"),
    [
        pytest.param(2, 2, 0, "fits", id="fits"),
        pytest.param(2, 4, 10, "busy", id="busy"),
        pytest.param(3, 4, 11, "impossible", id="impossible"),
    ],
)
def test_verdict_is_the_exit_code_and_is_in_the_json(
    run: Run, cluster: FakeApi, replicas: int, gpus: int, code: int, verdict: str
) -> None:
    _hold(cluster, [node("a", gpu="8")], [pod("p", on="a", gpu="3"), pod("q", phase="Pending", gpu="1")])

    outcome = run("check", "run1", "--set", f"workers.replicas={replicas},workers.gpus={gpus}", "-o", "json")

    answer = json.loads(outcome.out)
    assert (outcome.code, answer["verdict"]) == (code, verdict)
    figures = {"pods", "gpus", "fit", "reasons", "unseen", "assumed", "warnings"}
    assert set(answer) == {"verdict", "undecided", "next", *figures}
    assert answer["gpus"] == {"resource": "nvidia.com/gpu", "needed": replicas * gpus, "free": 5, "total": 8}
    assert answer["pods"][1] == {"role": "worker", "replicas": replicas, "requests": {"nvidia.com/gpu": str(gpus)}}
    assert answer["unseen"] == ["pods that wait for a node and may take room first: 1"]
    assert _wrote_nothing(cluster)


def test_verdict_is_also_markdown(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "run1", "--set", "workers.replicas=3,workers.gpus=4", "-o", "markdown")

    lines = outcome.out.splitlines()
    assert (outcome.code, lines[0]) == (11, "### `run1`: impossible")
    assert lines[2].startswith("- **Verdict:** impossible: workers.replicas: 3 workers of 4 nvidia.com/gpu each do not")
    assert "- **Next:** Lower workers.replicas to 2." in lines
    assert "  - 1 x `Insufficient nvidia.com/gpu`" in lines
    assert "- **GPUs:** 12 needed, 8 of 8 free" in lines


def test_total_is_spread_over_the_clusters_nodes_and_those_to_come(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "--set", "gpus=24", "--assume-nodes", "2x8")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("fits: 3 workers of 8 nvidia.com/gpu each")


@pytest.mark.parametrize(
    ("limits", "offered", "words"),
    [
        pytest.param({"cpu": 8}, {"cpu": "7"}, "Insufficient cpu", id="cpu-limit"),
        pytest.param({"ephemeral-storage": "10Gi"}, {"ephemeral-storage": "9Gi"}, "Insufficient ephemeral", id="disk"),
        pytest.param({"cpu": 1, "hugepages-2Mi": "1Gi"}, {}, "Insufficient hugepages-2Mi", id="hugepages"),
        pytest.param({"vpc.amazonaws.com/efa": 4}, {"vpc.amazonaws.com/efa": "3"}, "Insufficient vpc", id="efa"),
    ],
)
def test_everything_that_workers_ask_for_is_counted(
    run: Run, cluster: FakeApi, limits: dict[str, Any], offered: dict[str, str], words: str
) -> None:
    enough = {name: "100Gi" if name in ("ephemeral-storage", "hugepages-2Mi") else "100" for name in limits}
    asked = f"workers.resources={json.dumps({'limits': limits})}"
    answers = {}
    for name, more in (("short", offered), ("rich", enough)):
        one = node("a", gpu="8")
        one["status"]["allocatable"].update(more)
        _hold(cluster, [one])
        answers[name] = run("check", "--set-json", asked, "--set", "workers.replicas=1")

    assert (answers["rich"].code, answers["short"].code) == (0, 11)
    assert words in " ".join(answers["short"].out.split())


def test_claims_of_any_role_are_named_as_not_judged(run: Run, cluster: FakeApi) -> None:
    claims = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "eight"}]}

    outcome = run("check", "--set-json", f"podSpec={json.dumps(claims)}", "-o", "json")

    assert outcome.code == 0, outcome.err
    assert {"resource claims gpus of the worker", "resource claims gpus of the launcher"} <= {
        *json.loads(outcome.out)["unseen"]
    }


def test_charts_pod_that_the_api_server_refuses_is_impossible(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "--set-json", 'workers.tolerations=[{"key":"a","operator":"Exists","value":"b"}]')

    assert outcome.code == 11
    assert outcome.out.startswith("impossible: workers: the API server does not accept this Pod.")
    assert "value must be empty when `operator` is 'Exists'" in " ".join(outcome.out.split())


def test_version_is_asked_once_where_pod_security_depends_on_it(run: Run, cluster: FakeApi) -> None:
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.answers["/api/v1/namespaces/team"] = {"metadata": {"name": "team", "labels": enforced}}

    outcome = run("check", "--set", "workers.gpus=4")

    assert outcome.code == 0, outcome.err
    assert cluster.requests.count("GET /version") == 1


def test_job_that_may_not_fit_in_every_order_exits_12(run: Run, cluster: FakeApi) -> None:
    _hold(cluster, [node("a", gpu="8", cpu="2"), node("b", cpu="1")])

    outcome = run("check", "--set", "workers.gpus=4,workers.cpu=1")

    assert outcome.code == 12
    assert outcome.out.startswith("depends: workers.replicas: 2 workers and the launcher fit, but not in every order")


def test_values_merge_as_helm_merges_them(run: Run, cluster: FakeApi, tmp_path: Path) -> None:
    first, second, count = tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "count"
    first.write_text("workers: {replicas: 9, gpus: 9, gpuResource: amd.com/gpu}")
    second.write_text("workers: {replicas: 3, gpuResource: nvidia.com/gpu}")
    count.write_text("2")

    # Helm applies values files first, then --set-json, then --set. The order of the flags does not matter.
    outcome = run(
        *("check", "-o", "json", "--set", "workers.gpus=1", "--set-json", "workers.gpus=7"),
        *("-f", str(first), "--values", str(second), "--set-string", "env[0].name=N"),
        *("--set-file", f"env[0].value={count}"),
    )

    assert json.loads(outcome.out)["pods"][1] == {"role": "worker", "replicas": 3, "requests": {"nvidia.com/gpu": "1"}}


def test_values_may_come_from_stdin(
    run: Run, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("workers: {gpus: 3}")
    with values.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        outcome = run("check", "-o", "json", "-f", "-")

    assert json.loads(outcome.out)["gpus"]["needed"] == 6


def test_snapshot_from_stdin_is_read_once_for_the_split_and_for_the_verdict(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(json.dumps({"items": [{"kind": "Node", **node("a", gpu="8")}]}))
    with snapshot.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        outcome = run("check", "-o", "json", "--set", "gpus=8", "--snapshot", "-")

    assert (outcome.code, json.loads(outcome.out)["gpus"]["needed"]) == (0, 8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["--set", "workers.replica=3"],
            "distrain: workers.replica: there is no such value; did you mean workers.replicas?\n",
            id="misspelt-key",
        ),
        pytest.param(
            ["--set", "workers.gpus=many"],
            'distrain: workers.gpus: found the text "many"; it needs a whole number, such as 8\n',
            id="wrong-type",
        ),
        pytest.param(
            ["--set", "workers.replicas=0"],
            "distrain: workers.replicas: 0 is too small; use 1 or more\n",
            id="no-workers",
        ),
        pytest.param(
            ["-f", "no-such.yaml"],
            "distrain: --values: no-such.yaml cannot be read: No such file or directory; name another file\n",
            id="missing-file",
        ),
        pytest.param(
            ["--set", "workers"],
            "distrain: --set: workers: has no value; write KEY=VALUE\n",
            id="set-without-value",
        ),
        pytest.param(
            ["--chart", "/no/such"],
            "distrain: --chart: /no/such is neither a chart's folder nor a .tgz file; name the folder that "
            "contains Chart.yaml, or fetch the chart with `helm pull`\n",
            id="no-chart",
        ),
    ],
)
@pytest.mark.parametrize("command", ["check", "install"])
def test_wrong_values_are_one_line_before_the_cluster_is_asked(
    run: Run, command: str, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    outcome = run(command, "run1", *arguments)

    assert outcome == Outcome(2, "", words)


def test_rule_across_values_is_the_charts_own_line(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "--set", "gpus=9")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("distrain: gpus: ")
    assert "Use --debug" not in outcome.err
    assert "execution error" not in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_all_rules_that_values_break_are_reported_a_line_each(run: Run, cluster: FakeApi) -> None:
    outcome = run("check", "--set", "runAsUser=0", "--set", "data.source=s3")

    assert (outcome.code, outcome.out) == (2, "")
    paths = [line.removeprefix("distrain: ").partition(": ")[0] for line in outcome.err.splitlines()]
    assert paths == ["data.source", "runAsUser"]


def test_rule_that_repeats_an_odd_name_is_one_line(run: Run) -> None:
    twice = "env[0].name=A\x85B,env[0].value=x,env[1].name=A\x85B,env[1].value=x"

    outcome = run("check", "--offline", "--assume-nodes", "4x8", "--set", twice)

    words = "env[1].name: A\\x85B is already set, from env[0]; remove it in one place"
    assert outcome == Outcome(2, "", f"distrain: {words}\n")


def test_cluster_without_the_operator_is_refused_by_the_chart(run: Run, cluster: FakeApi) -> None:
    del cluster.answers["/apis/kubeflow.org"]

    outcome = run("check")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: job.kind: this cluster does not serve MPIJob; install mpi-operator")


TRAINING_OPERATOR = ("v1", "MPIJob", "PyTorchJob", "MXJob", "TFJob")
BESIDE = "2 workers of 4 nvidia.com/gpu each"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param(
            "framework=tensorflow",
            f"{BESIDE} and 1 launcher of 100m cpu, 5Gi ephemeral-storage and 512Mi memory",
            id="mpi-v1",
        ),
        pytest.param("framework=pytorch", BESIDE, id="pytorch"),
        pytest.param(
            "framework=pytorch,job.elastic=false",
            "1 worker of 4 nvidia.com/gpu and 1 master of 4 nvidia.com/gpu",
            id="pytorch-master",
        ),
        pytest.param(
            "framework=mxnet,strategy=parameter-server,servers.replicas=2",
            f"{BESIDE}, 2 servers of 1 cpu and 2Gi memory each and 1 scheduler of 100m cpu and 1Gi memory",
            id="mxnet",
        ),
        pytest.param(
            "framework=tensorflow,strategy=parameter-server,command={train}",
            f"{BESIDE}, 1 ps of 1 cpu and 2Gi memory and 1 chief of 100m cpu and 2Gi memory",
            id="tensorflow",
        ),
        pytest.param("job.kind=Plain", f"{BESIDE}, 1 launcher of", id="plain"),
    ],
)
def test_every_framework_is_checked_as_the_chart_renders_it(
    run: Run, cluster: FakeApi, settings: str, words: str
) -> None:
    cluster.serve(*TRAINING_OPERATOR)
    _hold(cluster, [node("a", {"ephemeral-storage": "100Gi"}, gpu="8")])

    outcome = run("check", "--set", f"{settings},workers.gpus=4")

    assert (outcome.code, outcome.err) == (0, "")
    assert " ".join(outcome.out.split()).startswith(f"fits: {words}")


def test_values_without_a_job_are_reported_so(run: Run) -> None:
    outcome = run("check", "--set", "job.enabled=false")

    assert outcome == Outcome(
        2,
        "",
        "distrain: job.enabled: is false, so there is no job to check; set it to true, or use `helm install`\n",
    )


def test_pods_of_an_installed_release_make_room_for_its_next_values(run: Run, cluster: FakeApi) -> None:
    running = pod("p", on="a", gpu="8")
    running["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    _hold(cluster, [node("a", gpu="8")], [running])

    assert run("check", "run1", "--set", "workers.gpus=4").code == 0
    assert run("check", "run2", "--set", "workers.gpus=4").code == 10
    assert run("check", "--set", "workers.gpus=4").code == 10


def test_unreachable_cluster_is_one_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "https://127.0.0.1:1")))

    outcome = run("install", "run1")

    words = (
        "the cluster at https://127.0.0.1:1 cannot be reached: Connection refused; check KUBECONFIG and --kube-context"
    )
    assert outcome == Outcome(3, "", f"distrain: {words}\n")


@pytest.mark.parametrize(("plural", "words"), [("nodes", "nodes"), ("pods", "pods of all namespaces")])
def test_caller_who_may_not_list_is_told_what_is_missing(run: Run, cluster: FakeApi, plural: str, words: str) -> None:
    cluster.answers[f"/api/v1/{plural}"] = 403

    outcome = run("check")

    assert outcome.code == 3
    assert outcome.err.startswith(f"distrain: {words} cannot be read: ")


def test_quota_that_may_not_be_read_is_reported_and_changes_nothing(run: Run, cluster: FakeApi) -> None:
    cluster.answers["/api/v1/namespaces/team/resourcequotas"] = 403

    outcome = run("check")

    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "not judged: ResourceQuotas of namespace team (you may not read it)"


def test_namespace_and_context_are_taken_from_flags(run: Run, cluster: FakeApi, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, cluster.url, name="other")
    config = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**config, "current-context": ""}))
    quota = {"metadata": {"name": "gpus"}, "status": {"hard": {"count/leases": "9"}}}
    cluster.answers["/api/v1/namespaces/mine/resourcequotas"] = [quota]
    cluster.answers["/api/v1/namespaces/mine/limitranges"] = []

    outcome = run("check", "--kubeconfig", str(path), "--kube-context", "fake", "-n", "mine")

    assert outcome.code == 0
    assert "not judged: ResourceQuota gpus: count/leases" in outcome.out


@pytest.mark.parametrize(("driver", "code"), [("", 11), ("secret", 11), ("configmap", 0)])
def test_quota_counts_the_secret_in_which_helm_records_the_release(
    run: Run, cluster: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str, code: int
) -> None:
    monkeypatch.setenv("HELM_DRIVER", driver)
    # mpi-operator creates another Secret.
    quota = {"metadata": {"name": "few", "namespace": "team"}, "spec": {"hard": {"secrets": "1"}}}
    quota["status"] = {"hard": {"secrets": "1"}, "used": {"secrets": "0"}}
    cluster.answers["/api/v1/namespaces/team/resourcequotas"] = [quota]
    snapshot = tmp_path / "snapshot.json"
    found = [{"kind": "Node", **node("a", gpu="8")}, {"kind": "ResourceQuota", **quota}]
    snapshot.write_text(json.dumps({"items": found}))

    # Revision 1 is already recorded. The check must count only the new Secrets: one for the next revision, and one that
    # mpi-operator creates.
    cluster.answers["/api/v1/namespaces/team/secrets/sh.helm.release.v1.run1.v1"] = release_secret("run1", "deployed")

    live = run("check", "run1", "--set", "workers.gpus=4")
    file = run("check", "run1", "--set", "workers.gpus=4", "--snapshot", str(snapshot), "-n", "team")

    assert (live.code, file.code) == (code, code)
    assert ("requested: secrets=2" in " ".join(live.out.split())) is bool(code)
