"""Test the check that Helm, Argo CD and Flux run in the cluster before they create or change any object."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from distrain.check.snapshot.judged_kinds import JUDGED
from tests.chart.documents import (
    DELETE,
    HOOK,
    RUN1,
    WEIGHT,
    annotation,
    documents,
    hooks,
    of_kind,
    only,
)
from tests.chart.rendering import Yaml, refusal, set_arguments

ON = "preflight.enabled=true"
EVENT = "pre-install"
OF_CLUSTER = ("ClusterRole", "ClusterRoleBinding")


def preflight(helm: Path, *assignments: str, release: str = "run1") -> list[Yaml]:
    return hooks(documents(helm, ON, *assignments, release=release), EVENT)


def test_nothing_of_it_unless_asked_for(helm: Path) -> None:
    assert hooks(documents(helm), EVENT) == []


def test_check_gets_exactly_the_job_that_helm_would_create(helm: Path) -> None:
    found = documents(helm, ON, "workers.replicas=3", "workers.gpus=4")
    checked = only(hooks(found, EVENT), "ConfigMap")["data"]["job.yaml"]

    (job,) = of_kind(list(yaml.safe_load_all(checked)), "MPIJob")

    assert job == only([one for one in found if not annotation(one, HOOK)], "MPIJob")


@pytest.mark.parametrize("kind", ["MPIJob", "Plain"])
def test_check_knows_the_accounts_that_the_release_makes(helm: Path, kind: str) -> None:
    found = documents(helm, ON, f"job.kind={kind}")
    checked = list(yaml.safe_load_all(only(hooks(found, EVENT), "ConfigMap")["data"]["job.yaml"]))

    known = {account["metadata"]["name"] for account in of_kind(checked, "ServiceAccount")}

    made = [one for one in found if not annotation(one, HOOK)]
    assert known >= {account["metadata"]["name"] for account in of_kind(made, "ServiceAccount")}


def test_check_may_read_all_that_a_check_judges(helm: Path) -> None:
    found = preflight(helm)

    rules = [rule for role in (*of_kind(found, "ClusterRole"), *of_kind(found, "Role")) for rule in role["rules"]]

    allowed = {resource for rule in rules if "list" in rule["verbs"] for resource in rule["resources"]}
    read_by_name = {resource for rule in rules if "get" in rule["verbs"] for resource in rule["resources"]}
    # The check need not list ServiceAccounts, because the manifest contains those of the release's pods. Of these
    # kinds, the check reads only RuntimeClasses by name.
    assert allowed == {kind.plural for kind in JUDGED} - {"serviceaccounts", "runtimeclasses"}
    assert read_by_name == {"namespaces", "runtimeclasses"}


def test_check_is_told_the_release_and_the_namespace(helm: Path) -> None:
    pod = only(preflight(helm), "Pod")
    (container,) = pod["spec"]["containers"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "job"]
    (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "job"]

    assert container["command"] == [
        "distrain", "check", "--manifest=/job/job.yaml", "--release=run1", "--namespace=team",
    ]  # fmt: skip
    assert mount["mountPath"] == "/job"
    assert volume["configMap"]["name"] == f"run1-preflight-{RUN1}"


def test_pod_comes_last_before_install_and_upgrade(helm: Path) -> None:
    *needed, pod = preflight(helm)

    assert pod["kind"] == "Pod"
    assert {annotation(one, HOOK) for one in [*needed, pod]} == {"pre-install,pre-upgrade"}
    assert {annotation(one, WEIGHT) for one in needed} == {"-1"}
    assert annotation(pod, WEIGHT) == "0"


def test_only_the_refusal_stays(helm: Path) -> None:
    # If the Pod fails, Helm still deletes the earlier hooks that have succeeded and have the policy hook-succeeded.
    # Argo CD applies hook-failed.
    *needed, pod = preflight(helm)

    assert {annotation(one, DELETE) for one in needed} == {"before-hook-creation,hook-succeeded,hook-failed"}
    assert annotation(pod, DELETE) == "before-hook-creation,hook-succeeded"


def test_answer_is_kept(helm: Path) -> None:
    pod = only(preflight(helm), "Pod")

    assert pod["spec"]["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert pod["spec"]["restartPolicy"] == "Never"


def test_only_helms_own_annotations_order_it(helm: Path) -> None:
    names = {name for one in preflight(helm) for name in one["metadata"]["annotations"]}

    assert names == {HOOK, WEIGHT, DELETE, "sidecar.istio.io/inject", "linkerd.io/inject"}


def test_account_may_only_read(helm: Path) -> None:
    found = preflight(helm)

    rules = [*only(found, "ClusterRole")["rules"], *only(found, "Role")["rules"]]

    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert not {"secrets", "configmaps", "*"} & {resource for rule in rules for resource in rule["resources"]}


def test_account_may_read_quotas_and_limits_of_its_namespace_only(helm: Path) -> None:
    found = preflight(helm)

    role, binding = only(found, "Role"), only(found, "RoleBinding")

    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["team"], "verbs": ["get"]},
        {
            "apiGroups": [""],
            "resources": ["limitranges", "persistentvolumeclaims", "resourcequotas"],
            "verbs": ["list"],
        },
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == only(found, "ClusterRoleBinding")["subjects"]


def test_role_of_the_cluster_belongs_to_this_release_alone(helm: Path) -> None:
    found = preflight(helm)
    role, binding = only(found, "ClusterRole"), only(found, "ClusterRoleBinding")

    assert role["metadata"]["name"] == binding["metadata"]["name"] == "distrain:team:run1:preflight"
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": f"run1-preflight-{RUN1}", "namespace": "team"}]
    assert only(found, "Pod")["spec"]["serviceAccountName"] == only(found, "ServiceAccount")["metadata"]["name"]


def test_objects_are_in_the_releases_namespace_unless_their_kind_has_none(helm: Path) -> None:
    found = [(each["kind"], each["metadata"].get("namespace")) for each in preflight(helm)]

    assert {kind: where for kind, where in found if kind.startswith("Cluster")} == dict.fromkeys(OF_CLUSTER)
    assert {where for kind, where in found if kind not in OF_CLUSTER} == {"team"}


def test_token_is_mounted_in_this_pod_only(helm: Path) -> None:
    found = preflight(helm)

    assert only(found, "Pod")["spec"]["automountServiceAccountToken"] is True
    assert only(found, "ServiceAccount")["automountServiceAccountToken"] is False


def test_account_of_an_admin_needs_no_role(helm: Path) -> None:
    found = preflight(helm, "preflight.serviceAccountName=reader", "rbac.create=false")

    assert [one["kind"] for one in found] == ["ConfigMap", "Pod"]
    assert found[-1]["spec"]["serviceAccountName"] == "reader"


def test_no_account_and_no_roles_is_refused(helm: Path) -> None:
    words = refusal(helm, *set_arguments(ON, "rbac.create=false"))

    assert "distrain: preflight.serviceAccountName: is empty but rbac.create is false; name a ServiceAccount" in words


@pytest.mark.parametrize(
    ("assignments", "image"),
    [
        pytest.param([], "distrain/tensorflow:0.1.0", id="the-jobs"),
        pytest.param(["image.repository=own", "preflight.image=r.example.com/d:1"], "r.example.com/d:1", id="another"),
    ],
)
def test_image_contains_distrain(helm: Path, assignments: list[str], image: str) -> None:
    (container,) = only(preflight(helm, *assignments), "Pod")["spec"]["containers"]

    assert container["image"] == image


def test_pull_secrets_are_the_jobs(helm: Path) -> None:
    pod = only(preflight(helm, "image.pullSecrets={login}"), "Pod")

    assert pod["spec"]["imagePullSecrets"] == [{"name": "login"}]


@pytest.mark.parametrize("security", ["restricted", "baseline", "privileged"])
def test_pod_is_restricted_whatever_the_job_is(helm: Path, security: str) -> None:
    pod = only(preflight(helm, f"podSecurity={security}"), "Pod")["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["enableServiceLinks"] is False


def test_pod_is_bounded(helm: Path) -> None:
    pod = only(preflight(helm), "Pod")["spec"]

    assert pod["activeDeadlineSeconds"] == 600
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "512Mi"}


def test_pod_may_be_placed_where_the_job_may(helm: Path) -> None:
    taint = "workers.tolerations[0].key=gpu,workers.tolerations[0].operator=Exists"

    pod = only(preflight(helm, taint), "Pod")["spec"]

    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]


def test_pod_is_in_no_gang(helm: Path) -> None:
    found = preflight(helm, "job.kind=Plain", "gang.scheduler=scheduler-plugins")
    pod = only(found, "Pod")

    assert set(pod["metadata"]["labels"]) == {
        "app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name", "distrain/instance",
        "sidecar.istio.io/inject", "istio.io/dataplane-mode",
    }  # fmt: skip
    assert "schedulerName" not in pod["spec"]


def test_longest_release_name_fits(helm: Path) -> None:
    release = "r" * 53

    found = preflight(helm, release=release)

    assert {len(one["metadata"]["name"]) for one in found if not one["kind"].startswith("Cluster")} == {45}
