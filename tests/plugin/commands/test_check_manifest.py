"""Test `check --manifest`, which does not need Helm, outside the cluster and in a pod."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from distrain import console
from distrain.apiserver import access, target
from tests.plugin import objects
from tests.plugin.fake_api import FakeApi, make_certificate, running
from tests.plugin.objects import mx_job, node, pod
from tests.plugin.program import Outcome, Run, called
from tests.plugin.program import hold as _hold
from tests.plugin.program import wrote_nothing as _wrote_nothing


@pytest.fixture
def distrain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `distrain` on a machine without Helm."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setenv("PATH", "/nowhere")
        return called(capsys, *arguments)

    return run


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(mx_job(servers=2, workers=2)))
    return str(path)


def test_manifest_is_checked_without_helm(distrain: Run, cluster: FakeApi, manifest: str) -> None:
    outcome = distrain("check", "--manifest", manifest, "-o", "json")

    answer = json.loads(outcome.out)
    assert (outcome.code, answer["verdict"]) == (0, "fits")
    assert [(pods["role"], pods["replicas"]) for pods in answer["pods"]] == [
        ("scheduler", 1),
        ("server", 2),
        ("worker", 2),
    ]
    assert _wrote_nothing(cluster)


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "CronJob", "LeaderWorkerSet"])
def test_kind_whose_pods_are_not_judged_is_refused_by_name(
    distrain: Run, cluster: FakeApi, manifest: str, kind: str
) -> None:
    with Path(manifest).open("a") as file:
        file.write(f"\n---\n{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: web}}}}\n")

    outcome = distrain("check", "--manifest", manifest)

    assert outcome.code == 2
    assert outcome.err.startswith(
        f"distrain: --manifest: {manifest}: {kind} web: creates pods, but distrain checks only the pods of an MPIJ"
    )


def test_object_that_is_dropped_is_said(distrain: Run, cluster: FakeApi, manifest: str) -> None:
    hook = "{name: db, annotations: {helm.sh/hook: pre-install}}"
    with Path(manifest).open("a") as file:
        file.write("\n---\n{apiVersion: kubeflow.org/v1, kind: Notebook, metadata: {name: web}}\n")
        file.write("---\n{apiVersion: batch/v1beta1, kind: Job, metadata: {name: old}}\n")
        file.write(f"---\n{{apiVersion: batch/v1, kind: Job, metadata: {hook}}}\n")
        file.write("---\n{apiVersion: v1, kind: Service, metadata: {name: web}}\n")

    outcome = distrain("check", "--manifest", manifest, "-o", "json")

    assert (outcome.code, json.loads(outcome.out)["unseen"]) == (
        0,
        [
            "Notebook web of kubeflow.org/v1, and pods that it may make",
            "Job old of batch/v1beta1, and pods that it may make",
            "Job db, a Helm hook",
        ],
    )


def test_number_of_pods_below_zero_is_impossible(distrain: Run, cluster: FakeApi, tmp_path: Path) -> None:
    container = "{name: a, image: b}"
    job = f"{{parallelism: -3, template: {{spec: {{containers: [{container}]}}}}}}"
    (tmp_path / "job.yaml").write_text(f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, spec: {job}}}")

    outcome = distrain("check", "--manifest", str(tmp_path / "job.yaml"))

    assert outcome.code == 11
    assert "Job is invalid: spec.parallelism: Invalid value: -3: must be greater than or equal to 0" in outcome.out


def test_job_that_the_api_server_refuses_is_impossible(distrain: Run, cluster: FakeApi, tmp_path: Path) -> None:
    job = "{template: {spec: {containers: [{name: a, image: b}]}}}"
    (tmp_path / "job.yaml").write_text(f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: a}}, spec: {job}}}")

    outcome = distrain("check", "--manifest", str(tmp_path / "job.yaml"))

    words = " ".join(outcome.out.split())
    assert outcome.code == 11
    assert words.startswith("impossible: a: the API server does not accept this Job. ")
    assert (
        'Job is invalid: spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"' in words
    )
    assert words.endswith("next: Correct spec.template.spec.restartPolicy.")


def test_object_without_a_name_is_refused(distrain: Run, cluster: FakeApi, manifest: str) -> None:
    with Path(manifest).open("a") as file:
        file.write("\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {labels: {a: b}}}\n")

    outcome = distrain("check", "--manifest", manifest)

    words = f"distrain: --manifest: {manifest}: ConfigMap without a name: metadata.name is missing; write it there\n"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", words)


@pytest.mark.parametrize(
    ("more", "namespace"),
    [
        pytest.param("{apiVersion: kubeflow.org/v1, kind: MXJob, metadata: {name: run1-1234abcd}}", "", id="job"),
        pytest.param(
            "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}}\n---\n"
            "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}}",
            " of namespace b",
            id="another-kind",
        ),
    ],
)
def test_object_that_is_there_twice_is_refused_by_name(
    distrain: Run, cluster: FakeApi, manifest: str, more: str, namespace: str
) -> None:
    with Path(manifest).open("a") as file:
        file.write(f"\n---\n{more}\n")

    outcome = distrain("check", "--manifest", manifest)

    name = "Secret a" if namespace else "MXJob run1-1234abcd"
    assert outcome.code == 2
    words = f"--manifest: {manifest}: {name}{namespace} appears twice; remove one, or give it another name"
    assert words in outcome.err


@pytest.mark.parametrize(
    "other", ["metadata: {name: a, namespace: c}", "metadata: {name: a, annotations: {helm.sh/hook: test}}"]
)
def test_objects_of_one_name_elsewhere_are_no_mistake(
    distrain: Run, cluster: FakeApi, manifest: str, other: str
) -> None:
    place = "/api/v1/namespaces/c"
    cluster.answers |= {place: objects.namespace("c"), f"{place}/resourcequotas": [], f"{place}/limitranges": []}
    with Path(manifest).open("a") as file:
        file.write("\n---\n{apiVersion: v1, kind: Secret, metadata: {name: a}}\n")
        file.write(f"\n---\n{{apiVersion: v1, kind: Secret, {other}}}\n")
        file.write("\n---\n{apiVersion: v1, kind: Service, metadata: {name: a}}\n")

    assert distrain("check", "--manifest", manifest).code == 0


def test_manifest_may_come_from_stdin(
    distrain: Run, cluster: FakeApi, manifest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(manifest).open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        outcome = distrain("check", "--manifest", "-")

    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("fits: 2 workers of 4 nvidia.com/gpu each, 2 servers of 1 cpu each and 1 scheduler")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--release", "run1"], 0, id="release"),
        pytest.param(["run1"], 0, id="name"),
        pytest.param(["--release", "run2"], 10, id="another-release"),
        pytest.param(["--release", "run1", "-n", "mine"], 10, id="another-namespace"),
        pytest.param([], 10, id="no-release"),
    ],
)
def test_pods_of_the_release_make_room_for_its_next_job(
    distrain: Run, cluster: FakeApi, manifest: str, arguments: list[str], code: int
) -> None:
    running = pod("p", on="a", gpu="8")
    running["metadata"]["labels"] = {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}
    _hold(cluster, [node("a", gpu="8")], [running])
    cluster.answers |= {f"/api/v1/namespaces/mine/{plural}": [] for plural in ("resourcequotas", "limitranges")}

    outcome = distrain("check", *arguments, "--manifest", manifest)

    assert outcome.code == code
    assert ("the run's own 1 pod counts as free" in outcome.out) == (code == 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["--manifest", "no-such.yaml"],
            "--manifest: no-such.yaml cannot be read: No such file or directory; name another file",
            id="missing",
        ),
        pytest.param(
            ["--manifest", "job.yaml", "--set", "a=b"],
            "--manifest: cannot be combined with values; leave out -f and --set, or --manifest",
            id="with-values",
        ),
    ],
)
def test_manifest_that_cannot_be_checked_is_one_line(
    distrain: Run, arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert distrain("check", *arguments) == Outcome(2, "", f"distrain: {words}\n")


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Serve a cluster, and make the program believe that it runs in a pod of this cluster.

    The pod has a ServiceAccount but no kubeconfig.
    """
    make_certificate(tmp_path / "ca.pem")
    (tmp_path / "token").write_text("own")
    (tmp_path / "namespace").write_text("team")
    with running(tmp_path / "ca.pem") as api:
        address = urlsplit(api.url)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(address.hostname))
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
        monkeypatch.setattr(access, "CA_FILE", tmp_path / "ca.pem")
        monkeypatch.setattr(target, "TOKEN", tmp_path / "token")
        monkeypatch.setattr(target, "OWN_NAMESPACE", tmp_path / "namespace")
        monkeypatch.delenv("HOME")
        _hold(api, [node("a", gpu="8")])
        api.serve("v1", "MXJob")
        # The pod's ServiceAccount may list only nodes and pods.
        api.answers |= {f"/api/v1/namespaces/team/{plural}": 403 for plural in ("resourcequotas", "limitranges")}
        yield api


def test_pod_checks_the_cluster_around_it_with_its_own_account(distrain: Run, around: FakeApi, manifest: str) -> None:
    outcome = distrain("check", "--manifest", manifest, "--release", "run1")

    assert (outcome.code, outcome.err) == (0, "")
    assert set(around.authorizations) == {"Bearer own"}
    assert outcome.out.splitlines()[0] == "not judged: ResourceQuotas of namespace team (you may not read it)"
    assert outcome.out.splitlines()[-1].startswith("fits: 2 workers")


def test_refusal_is_the_last_line_of_the_pods_log(distrain: Run, around: FakeApi, manifest: str) -> None:
    _hold(around, [node("a", gpu="4")])

    outcome = distrain("check", "--manifest", manifest)

    assert (outcome.code, outcome.err) == (11, "")
    assert outcome.out.splitlines()[-1].startswith("impossible: workers.replicas: 2 workers of 4 nvidia.com/gpu each")


@pytest.mark.usefixtures("around")
def test_verdict_is_the_pods_termination_message(
    distrain: Run, manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "termination-log"
    log.write_text("what was there before, and is longer than the verdict of any check that will ever be made here")
    monkeypatch.setattr(console, "TERMINATION_LOG", log)

    outcome = distrain("check", "--manifest", manifest)

    assert outcome.code == 0
    assert log.read_text() == outcome.out.splitlines()[-1]


@pytest.mark.usefixtures("cluster")
def test_check_from_outside_leaves_no_termination_message(
    distrain: Run, manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "termination-log"
    log.write_text("")
    monkeypatch.setattr(console, "TERMINATION_LOG", log)

    assert distrain("check", "--manifest", manifest).code == 0

    assert log.read_text() == ""


def test_permission_that_the_pods_account_lacks_is_named(distrain: Run, around: FakeApi, manifest: str) -> None:
    around.answers["/api/v1/nodes"] = 403

    outcome = distrain("check", "--manifest", manifest)

    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == (
        "distrain: nodes cannot be read: /api/v1/nodes is refused with 403; ask for a role that allows `get` and "
        "`list` on them\n"
    )
