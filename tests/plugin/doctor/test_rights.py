"""Test which permissions `doctor` asks the API server about, and the RBAC objects that grant them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from distrain.doctor import operators, rights
from distrain.doctor.rights import PLAIN, Right
from lab.paths import CHART

# Maps each kind of job to the values that select this kind.
KINDS = {
    "MPIJob": "framework=tensorflow",
    "PyTorchJob": "framework=pytorch",
    "TFJob": "strategy=parameter-server",
    "MXJob": "framework=mxnet,strategy=parameter-server",
    PLAIN: "job.kind=Plain",
}
CREATE_JOBS = Right("kubeflow.org", "mpijobs", "create")
LIST_NODES = Right("", "nodes", "list", cluster_wide=True)


@pytest.mark.parametrize(("kind", "settings"), KINDS.items(), ids=KINDS)
def test_rights_are_those_for_what_the_chart_renders(helm4: Path, kind: str, settings: str) -> None:
    # `helm template` renders the chart's hooks only if it renders for a real cluster.
    versions = {"MPIJob": "v2beta1", "PyTorchJob": "v1", "TFJob": "v1", "MXJob": "v1"}
    apis = ["apiregistration.k8s.io/v1", *(f"kubeflow.org/{version}/{served}" for served, version in versions.items())]
    command = [str(helm4), "template", "run1", str(CHART), "--set", settings]
    command += [word for api in apis for word in ("--api-versions", api)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents = [document for document in yaml.safe_load_all(printed) if document]

    made = {_resource(item) for document in documents for item in document.get("items", [document])}

    asked = {(right.group, right.resource) for right in rights.asked([kind]) if right.verb == "create"}
    # Helm stores its releases in Secrets.
    needed = {("", "secrets")}
    assert asked - needed == made - needed


def _resource(item: dict[str, str]) -> tuple[str, str]:
    return item["apiVersion"].rpartition("/")[0], f"{item['kind'].lower()}s"


def test_each_purpose_takes_no_more_than_it_needs() -> None:
    told = {purpose.name: rights.described(purpose.rights) for purpose in rights.purposes(["MPIJob"])}

    rbac = "roles.rbac.authorization.k8s.io and rolebindings.rbac.authorization.k8s.io"
    made = f"mpijobs.kubeflow.org, configmaps, pods, serviceaccounts, {rbac}"
    assert told == {
        "install any job": "get/list/create/update/delete secrets, get/create/patch/delete serviceaccounts",
        "install MPIJob": "get/create/patch/delete mpijobs.kubeflow.org and configmaps",
        "helm distrain check": "list nodes, pods of all namespaces, priorityclasses.scheduling.k8s.io, resourcequotas "
        "and limitranges, get namespaces",
        "helm distrain install --wait": "list pods and events, get pods/log",
        "helm distrain status and logs": "list/watch mpijobs.kubeflow.org, jobs.batch and pods, get pods/log and "
        "persistentvolumeclaims, list events and configmaps",
        # While Helm 4 waits for a hook, it lists and watches the objects of the hook.
        "helm upgrade": f"get/create/patch/delete/list/watch pods, configmaps, serviceaccounts, {rbac}",
        "helm test": f"get/create/patch/delete/list/watch {made}, get pods/log",
        "kubectl logs": "get/list pods, get pods/log",
    }


def test_queues_and_gangs_are_read_only_where_the_cluster_serves_them() -> None:
    served = ["kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta1/Workload", "scheduling.volcano.sh/v1beta1/PodGroup"]

    more = set(rights.asked(["MPIJob"], served)) - set(rights.asked(["MPIJob"]))

    assert rights.described(sorted(more)) == "list workloads.kueue.x-k8s.io, get podgroups.scheduling.volcano.sh"


def test_key_of_a_plain_job_is_not_watched() -> None:
    secrets = {right.verb for right in rights.asked([PLAIN]) if right.resource == "secrets"}

    assert secrets == {"get", "list", "create", "update", "patch", "delete"}


def test_role_and_cluster_role_hold_what_is_missing_and_no_more() -> None:
    objects = rights.grants([LIST_NODES, CREATE_JOBS], "team", "jane")

    rules = {item["kind"]: item["rules"] for item in objects if "rules" in item}
    assert rules == {
        "Role": [{"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["create"]}],
        "ClusterRole": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}],
    }


def test_rights_are_reported_in_few_words() -> None:
    create = [Right("kubeflow.org", "mpijobs", verb) for verb in ("create", "patch")]
    missing = [*create, Right("", "configmaps", "create"), Right("", "configmaps", "patch"), LIST_NODES]
    missing.append(Right("", "pods", "list", cluster_wide=True))

    told = rights.described(missing)

    assert told == "create/patch mpijobs.kubeflow.org and configmaps, list nodes and pods of all namespaces"


def test_later_grant_takes_nothing_back() -> None:
    (first, _), (second, _) = (
        rights.grants([right], "team", "jane") for right in (CREATE_JOBS, Right("", "pods", "list"))
    )

    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert rights.grants([CREATE_JOBS], "team", "jane")[0] == first


def test_nothing_missing_is_nothing_to_grant() -> None:
    assert rights.grants([], "team", "jane") == []


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        pytest.param("jane", {"apiGroup": rights.RBAC, "kind": "User", "name": "jane"}, id="user"),
        pytest.param(
            "system:serviceaccount:team:default-editor",
            {"kind": "ServiceAccount", "namespace": "team", "name": "default-editor"},
            id="service-account",
        ),
        pytest.param(None, {"apiGroup": rights.RBAC, "kind": "User", "name": rights.SOMEBODY}, id="unknown"),
    ],
)
def test_grant_names_who_asked(user: str | None, subject: dict[str, str]) -> None:
    _, binding = rights.grants([CREATE_JOBS], "team", user)

    assert binding["subjects"] == [subject]


def test_versions_of_each_kind_are_those_of_the_chart() -> None:
    facts = json.loads((CHART / "files" / "kinds.json").read_text())
    served = [f"{kind['group']}/{one['name']}/{kind['name']}" for kind in facts["kinds"] for one in kind["versions"]]

    found = {kind.name: operators.versions(kind, served) for kind in operators.KINDS}

    assert found == {
        kind["name"]: [one["name"] for one in kind["versions"]] for kind in facts["kinds"] if kind["versions"]
    }
