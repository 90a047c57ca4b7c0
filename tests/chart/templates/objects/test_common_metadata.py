"""Test commonLabels and commonAnnotations on every object and pod, and the annotations of the pods' ServiceAccount."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import documents, of_kind, only
from tests.chart.kinds import KINDS, every_kind
from tests.chart.rendering import refusal, render_with, set_arguments
from tests.chart.templates.objects.everything import everything, pods

LABEL = "commonLabels.cost-centre=vision"
ANNOTATION = "commonAnnotations.example\\.com/owner=vision"
ROLE = "arn:aws:iam::111122223333:role/training"
ACCOUNT = f"serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn={ROLE}"


@every_kind
def test_common_labels_are_on_every_object_and_pod(helm: Path, kind: str) -> None:
    found = everything(helm, kind, LABEL)

    metadata = [one["metadata"] for one in (*found, *pods(found))]
    assert len(metadata) > 10
    assert [one for one in metadata if one["labels"].get("cost-centre") != "vision"] == []


@every_kind
def test_common_annotations_are_on_every_object_and_no_pod_of_the_job(helm: Path, kind: str) -> None:
    found = everything(helm, kind, ANNOTATION)

    assert [one for one in found if one["metadata"].get("annotations", {}).get("example.com/owner") != "vision"] == []
    of_job = [pod for pod in pods(found) if "name" not in pod["metadata"]]
    assert of_job
    assert [pod for pod in of_job if "example.com/owner" in pod["metadata"]["annotations"]] == []


def test_list_of_the_jobs_of_a_test_has_their_labels_and_annotations(helm: Path) -> None:
    found = documents(helm, *KINDS["plain"], LABEL, ANNOTATION)

    together = only(found, "List")
    for one in (together, *together["items"]):
        assert one["metadata"]["labels"]["cost-centre"] == "vision"
        assert one["metadata"]["annotations"]["example.com/owner"] == "vision"


def test_own_labels_of_pods_and_of_the_pod_monitor_come_over_common_ones(helm: Path) -> None:
    values = (LABEL, "podLabels.cost-centre=pods", "launcher.labels.cost-centre=launcher")
    monitor = ("monitoring.podMonitor=true", "monitoring.labels.cost-centre=monitor")
    found = documents(helm, *values, *monitor)

    job, pod_monitor = only(found, "MPIJob", "run1"), only(found, "PodMonitor")

    replicas = job["spec"]["mpiReplicaSpecs"]
    told = {role: replicas[role]["template"]["metadata"]["labels"]["cost-centre"] for role in replicas}
    assert told == {"Worker": "pods", "Launcher": "launcher"}
    assert job["metadata"]["labels"]["cost-centre"] == "vision"
    assert pod_monitor["metadata"]["labels"]["cost-centre"] == "monitor"


@every_kind
def test_common_metadata_replaces_a_job_only_where_kubernetes_fixes_the_labels_of_its_pods(
    helm: Path, kind: str
) -> None:
    before = render_with(helm, KINDS[kind]).content

    assert (render_with(helm, (*KINDS[kind], LABEL)).content != before) == (kind == "plain")
    assert render_with(helm, (*KINDS[kind], ANNOTATION)).content == before


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        ("app.kubernetes.io/instance", "app.kubernetes.io/part-of"),
        ("app.kubernetes.io/component", "component"),
        ("helm.sh/chart", "chart"),
        ("distrain/instance", "instance"),
        ("kueue.x-k8s.io/queue-name", "queue-name"),
        ("training.kubeflow.org/job-name", "training-job"),
        ("batch.kubernetes.io/job-name", "batch-job"),
        ("sidecar.istio.io/inject", "istio.io/rev"),
        ("job-name", "job"),
    ],
)
def test_common_label_of_the_chart_or_an_operator_is_refused(helm: Path, key: str, accepted: str) -> None:
    escaped = [f"commonLabels.{word.replace('.', chr(92) + '.')}=mine" for word in (key, accepted)]

    assert f"distrain: commonLabels: {key} is a label that the chart" in refusal(helm, *set_arguments(escaped[0]))
    assert render_with(helm, escaped[1:]).scripts["metadata"]["labels"][accepted] == "mine"


@pytest.mark.parametrize(
    ("key", "accepted"),
    [("helm\\.sh/hook", "helm\\.example/hook"), ("distrain/content", "content"),
     ("sidecar\\.istio\\.io/inject", "sidecar\\.istio\\.io/other")],
)  # fmt: skip
def test_common_annotation_of_the_chart_is_refused(helm: Path, key: str, accepted: str) -> None:
    words = refusal(helm, *set_arguments(f"commonAnnotations.{key}=mine"))

    assert (
        f"distrain: commonAnnotations: {key.replace(chr(92), '')} is an annotation that the chart sets; remove it"
    ) in words
    render_with(helm, (f"commonAnnotations.{accepted}=mine",))


@every_kind
def test_annotations_of_the_account_are_on_that_of_the_pods_alone(helm: Path, kind: str) -> None:
    found = everything(helm, kind, ACCOUNT, ANNOTATION)

    accounts = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in of_kind(found, "ServiceAccount")}
    assert len(accounts) > 1
    assert accounts["run1"] == {"eks.amazonaws.com/role-arn": ROLE, "example.com/owner": "vision"}
    assert [name for name, told in accounts.items() if "eks.amazonaws.com/role-arn" in told] == ["run1"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("serviceAccountName=mine", 'serviceAccountName "mine" is your own ServiceAccount; annotate it with kubectl'),
        (
            "rbac.create=false",
            "with rbac.create=false the chart creates no ServiceAccount; name your own ServiceAccount in",
        ),
    ],
)
def test_annotations_of_an_account_that_the_chart_does_not_make_are_refused(helm: Path, value: str, words: str) -> None:
    assert f"distrain: serviceAccount.annotations: is set, but {words}" in refusal(helm, *set_arguments(ACCOUNT, value))
    render_with(helm, (value,))


@every_kind
def test_account_with_a_role_of_the_cloud_gives_pods_no_token_of_kubernetes(helm: Path, kind: str) -> None:
    # IRSA, EKS Pod Identity and Azure's webhook project their own tokens into the pod. GKE's token comes from its
    # metadata server. So none of these clouds needs the Kubernetes token that automountServiceAccountToken mounts.
    rendered = render_with(helm, (*KINDS[kind], ACCOUNT))

    assert {rendered.pod(role)["automountServiceAccountToken"] for role in rendered.replicas if role != "Keygen"} <= {
        False, kind in ("mpijob-v1", "mpijob-v1alpha2")
    }  # fmt: skip
    assert rendered.pod("Worker")["serviceAccountName"] == "run1"
    assert rendered.pod("Worker")["automountServiceAccountToken"] is False


@every_kind
def test_digest_is_in_the_image_of_every_pod(helm: Path, kind: str) -> None:
    digest = f"sha256:{64 * 'a'}"

    found = pods(everything(helm, kind, f"image.digest={digest}"))

    assert {pod["spec"]["containers"][0]["image"].partition("@")[2] for pod in found} == {digest}


@every_kind
def test_pull_secrets_of_the_chart_above_are_on_every_pod_of_jobs_and_hooks(helm: Path, kind: str) -> None:
    found = pods(everything(helm, kind, "global.imagePullSecrets={mirror}", "image.pullSecrets={login}"))

    assert {str(pod["spec"]["imagePullSecrets"]) for pod in found} == {"[{'name': 'mirror'}, {'name': 'login'}]"}
