"""Test the hook that ends the running job before an upgrade or rollback that changes the content hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.documents import DELETE, HOOK, RUN1, WEIGHT, annotation, documents, hooks, only
from tests.chart.rendering import CHART, Yaml, render, set_arguments, template

NAME = f"run1-replace-{RUN1}"
EVENTS = "pre-upgrade,pre-rollback"


def made(helm: Path, *assignments: str) -> list[Yaml]:
    return hooks(documents(helm, *assignments), "pre-rollback")


def arguments(pod: Yaml) -> list[str]:
    (container,) = pod["spec"]["containers"]
    return list(container["args"])


def test_pod_comes_after_preflight_and_after_what_it_needs(helm: Path) -> None:
    found = made(helm)
    preflight = hooks(documents(helm, "preflight.enabled=true"), "pre-install")

    *needed, pod = found

    assert [one["kind"] for one in needed] == ["ServiceAccount", "ConfigMap", "Role", "RoleBinding"]
    assert {annotation(one, HOOK) for one in found} == {EVENTS}
    assert {annotation(one, WEIGHT) for one in needed} == {"1"}
    assert annotation(pod, WEIGHT) == "2"
    # The preflight check runs first, so that a refused upgrade does not end the running job.
    assert max(int(annotation(one, WEIGHT)) for one in preflight) < 1
    assert {one["metadata"]["name"] for one in found} == {NAME}


def test_pod_that_failed_alone_stays(helm: Path) -> None:
    *needed, pod = made(helm)

    assert {annotation(one, DELETE) for one in needed} == {"before-hook-creation,hook-succeeded,hook-failed"}
    assert annotation(pod, DELETE) == "before-hook-creation,hook-succeeded"


@pytest.mark.parametrize("values", [(), ("framework=pytorch",), ("job.kind=Plain",)], ids=str)
def test_pod_knows_the_jobs_content_and_what_the_job_may_be(helm: Path, values: tuple[str, ...]) -> None:
    found = documents(helm, *values)
    jobs = [one for one in found if "distrain/content" in one["metadata"].get("annotations", {})]
    (content,) = {annotation(one, "distrain/content") for one in jobs}

    given = arguments(only(made(helm, *values), "Pod"))

    (resource,) = {f"{one['kind'].lower()}s" for one in jobs}
    assert given[:3] == [f"--content={content}", "--instance=run1", f"--resource={resource}"]
    assert given[3:] == [
        "--object=kubeflow.org/v2beta1/mpijobs/run1",
        *(f"--object=kubeflow.org/v1/{kind}/run1" for kind in ("pytorchjobs", "mxjobs", "tfjobs")),
        *(f"--object=batch/v1/jobs/run1-plain-{part}" for part in ("launcher", "worker", "keygen")),
    ]
    for job in jobs:
        path = f"{job['apiVersion']}/{resource}/{job['metadata']['name']}"
        assert f"--object={path}" in given


def test_older_version_is_looked_for_where_the_job_has_it(helm: Path) -> None:
    given = arguments(only(made(helm, "job.apiVersion=v1"), "Pod"))

    assert "--object=kubeflow.org/v1/mpijobs/run1" in given


def test_account_may_get_and_delete_these_jobs_alone(helm: Path) -> None:
    found = made(helm)
    rules = only(found, "Role")["rules"]
    allowed = {
        f"{group}/{resource}/{name}"
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule["resourceNames"]
    }
    objects = [argument.partition("=")[2].split("/") for argument in arguments(only(found, "Pod"))[3:]]

    assert {tuple(rule["verbs"]) for rule in rules} == {("get", "delete")}
    assert allowed == {f"{group}/{plural}/{name}" for group, _, plural, name in objects}
    assert only(found, "RoleBinding")["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "team"}]
    assert only(found, "Pod")["spec"]["serviceAccountName"] == NAME
    assert only(found, "ServiceAccount")["automountServiceAccountToken"] is False


def test_pod_has_the_script_of_its_own_revision(helm: Path) -> None:
    found = made(helm)
    pod = only(found, "Pod")
    (volume,) = [one for one in pod["spec"]["volumes"] if "configMap" in one]

    data = only(found, "ConfigMap", volume["configMap"]["name"])["data"]

    assert pod["spec"]["containers"][0]["command"] == ["/opt/distrain/bin/distrain-replace"]
    assert data == {
        name: (CHART / "files" / name).read_text(encoding="utf-8")
        for name in ("distrain-replace", "distrain_kube.py", "distrain_message.py", "distrain_sigterm.py")
    }


def test_pod_goes_where_the_job_has_brought_the_image(helm: Path) -> None:
    pod = only(made(helm, "image.tag=new"), "Pod")
    (term,) = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]

    # The hook's pod uses the new image. If the image cannot be pulled, the upgrade fails before the hook ends the job.
    assert pod["spec"]["containers"][0]["image"] == "distrain/tensorflow:new"
    labels = term["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert labels == {"app.kubernetes.io/name": "distrain", "app.kubernetes.io/instance": "run1"}


@pytest.mark.parametrize(("grace", "seconds"), [(None, 600), (0, 600), (225, 660), (3600, 4035)])
def test_pod_lives_as_long_as_the_jobs_pods_may_take_to_end(helm: Path, grace: int | None, seconds: int) -> None:
    values = () if grace is None else (f"workers.podSpec.terminationGracePeriodSeconds={grace}",)

    pod = only(made(helm, *values), "Pod")["spec"]

    assert pod["activeDeadlineSeconds"] == seconds


@pytest.mark.parametrize("security", ["restricted", "baseline"])
def test_pod_is_restricted_whatever_the_job_is(helm: Path, security: str) -> None:
    pod = only(made(helm, f"podSecurity={security}"), "Pod")["spec"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_account_of_an_admin_needs_no_role(helm: Path) -> None:
    found = made(helm, "rbac.create=false", "replace.serviceAccountName=replacer")

    assert [one["kind"] for one in found] == ["ConfigMap", "Pod"]
    assert found[-1]["spec"]["serviceAccountName"] == "replacer"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(("replace.enabled=false",), id="left-out"),
        pytest.param(("rbac.create=false",), id="without-an-account"),
        pytest.param(("job.enabled=false", "rbac.aggregateToKubeflowEdit=true", "rbac.kinds={MPIJob}"), id="no-job"),
    ],
)
def test_some_releases_have_none(helm: Path, values: tuple[str, ...]) -> None:
    assert made(helm, *values) == []


@pytest.mark.parametrize("kind", ["auto", "Plain"])
def test_rendered_without_a_cluster_there_is_the_job_and_no_hook(helm: Path, kind: str) -> None:
    """The command `helm template run1 ... | kubectl apply -f -` would create hooks as if they were ordinary objects."""
    values = set_arguments("preflight.enabled=true", f"job.kind={kind}")

    rendered = render(helm, *values)
    real = template(helm, *values, "--api-versions", "apiregistration.k8s.io/v1,kubeflow.org/v2beta1/MPIJob")

    assert rendered.hooks == []
    jobs = [one for one in rendered.documents if one["kind"] in ("MPIJob", "Job", "Pod", "List")]
    assert {one["metadata"]["labels"]["app.kubernetes.io/instance"] for one in jobs} == {"run1"}
    assert len(jobs) == (3 if kind == "Plain" else 1)
    assert "helm.sh/hook: pre-install,pre-upgrade" in real.stdout
