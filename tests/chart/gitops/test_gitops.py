"""Test which health Argo CD and Flux, with their own health checks, report for a job from its operator's status.

Each file statuses/<kind>-<state>.yaml or statuses/<kind>-<state>-<words>.yaml contains a job in the state <state>.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.builds import golang
from tests.chart.documents import documents
from tests.chart.rendering import REPOSITORY

DOCS = REPOSITORY / "docs"
STATUSES = sorted((Path(__file__).parent / "statuses").glob("*.yaml"))
KINDS = ["MPIJob", "PyTorchJob", "MXJob", "TFJob"]
# SEEN maps the state of a job to its health in Argo CD and its health in Flux.
SEEN = {
    "created": ("Progressing", "InProgress"),
    "running": ("Progressing", "Current"),
    "restarting": ("Progressing", "InProgress"),
    "resumed": ("Progressing", "Current"),
    "suspended": ("Suspended", "Current"),
    "succeeded": ("Healthy", "Current"),
    "failed": ("Degraded", "Failed"),
}


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "message": f"{kind} it is"}


def job(*conditions: dict[str, str], kind: str = "PyTorchJob") -> dict[str, Any]:
    return {"apiVersion": "kubeflow.org/v1", "kind": kind, "status": {"conditions": list(conditions)}}


def judge(seen: dict[str, Any]) -> dict[str, str]:
    """Return the health that Argo CD and Flux report for an object."""
    request = {
        "lua": (DOCS / "argocd" / "health.lua").read_text(encoding="utf-8"),
        "expressions": health_checks()[seen["kind"]],
        "object": seen,
    }
    command = [golang.binary("gitops")]
    done = subprocess.run(command, input=json.dumps(request) + "\n", capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(done.stdout)
    assert told["error"] == ""
    return told


@functools.cache
def health_checks() -> dict[str, dict[str, str]]:
    text = (DOCS / "flux" / "health-checks.yaml").read_text(encoding="utf-8")
    return {check["kind"]: check for check in yaml.safe_load(text)["healthCheckExprs"]}


@pytest.mark.parametrize("file", STATUSES, ids=lambda file: file.stem)
def test_status_of_an_operator_is_recognized(file: Path) -> None:
    kind, state = file.stem.split("-")[:2]
    seen = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert seen["kind"].lower() == kind

    told = judge(seen)

    assert (told["argocd"], told["flux"]) == SEEN[state]


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_of_every_kind_is_tried(kind: str) -> None:
    states = {file.stem.split("-")[1] for file in STATUSES if file.stem.startswith(f"{kind.lower()}-")}

    # mpi-operator never sets the condition Restarting, because the launcher is a batch Job.
    assert states >= SEEN.keys() - ({"restarting"} if kind == "MPIJob" else set())


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": []}], ids=str)
def test_job_that_no_operator_has_seen_is_waited_for(status: object) -> None:
    seen = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "run1"}}

    told = judge(seen if status is None else {**seen, "status": status})

    assert told["argocd"] == "Progressing"
    assert told["flux"] in ("InProgress", "Unknown")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "flux"),
    [
        pytest.param({"kueue.x-k8s.io/queue-name": "team"}, "InProgress", id="by-kueue"),
        pytest.param({"team": "a"}, "Current", id="by-its-values"),
    ],
)
def test_flux_waits_for_a_job_that_kueue_holds_alone(kind: str, labels: dict[str, str], flux: str) -> None:
    file = Path(__file__).parent / "statuses" / f"{kind.lower()}-suspended.yaml"
    seen = yaml.safe_load(file.read_text(encoding="utf-8"))
    seen["metadata"]["labels"] = labels

    told = judge(seen)

    assert (told["argocd"], told["flux"]) == ("Suspended", flux)


def test_suspension_counts_more_than_an_old_restart() -> None:
    told = judge(job(condition("Restarting"), condition("Suspended")) | {"metadata": {"name": "run1"}})

    assert (told["argocd"], told["flux"]) == ("Suspended", "Current")


def test_failed_counts_more_than_succeeded() -> None:
    # If one worker of an elastic PyTorchJob has succeeded and another has failed, training-operator sets both Succeeded
    # and Failed.
    told = judge(job(condition("Created"), condition("Succeeded"), condition("Failed")))

    assert (told["argocd"], told["flux"]) == ("Degraded", "Failed")


def test_succeeded_counts_more_than_an_old_restart() -> None:
    told = judge(job(condition("Restarting"), condition("Running", "False"), condition("Succeeded")))

    assert (told["argocd"], told["flux"]) == ("Healthy", "Current")


def test_argo_cd_passes_the_operators_message_on() -> None:
    told = judge(job(condition("Created"), condition("Failed")))

    assert told["message"] == "Failed it is"


def test_flux_knows_every_kind(helm3: Path) -> None:
    assert list(health_checks()) == KINDS
    for framework in ("tensorflow", "pytorch"):
        rendered = next(one for one in documents(helm3, f"framework={framework}") if one["kind"] in KINDS)
        assert health_checks()[rendered["kind"]]["apiVersion"] == rendered["apiVersion"]


def test_page_names_every_kind_for_argo_cd() -> None:
    page = (DOCS / "gitops.md").read_text(encoding="utf-8")

    assert re.findall(r"health\.kubeflow\.org_(\w+)=docs/argocd/health\.lua", page) == KINDS


def manifest(name: str) -> dict[str, Any]:
    """Return an example manifest from docs/."""
    found: dict[str, Any] = yaml.safe_load((DOCS / name).read_text(encoding="utf-8"))
    return found


def test_values_file_of_the_examples_is_accepted_by_the_chart(helm: Path) -> None:
    release = manifest("flux/helmrelease.yaml")

    done = subprocess.run(
        [helm, "template", "run1", REPOSITORY / release["spec"]["chart"]["spec"]["chart"], "-f", DOCS / "run1.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_examples_read_the_values_file_where_the_page_says() -> None:
    release = manifest("flux/helmrelease.yaml")
    application = manifest("argocd/application.yaml")
    page = (DOCS / "gitops.md").read_text(encoding="utf-8")

    assert "`runs/run1.yaml`" in page
    assert release["spec"]["chart"]["spec"]["valuesFiles"] == ["./charts/distrain/values.yaml", "./runs/run1.yaml"]
    assert application["spec"]["sources"][0]["helm"]["valueFiles"] == ["$values/runs/run1.yaml"]


def test_application_of_a_registry_differs_from_its_twin_in_the_charts_source_alone() -> None:
    git, oci = manifest("argocd/application.yaml"), manifest("argocd/application-oci.yaml")

    sources = [each["spec"]["sources"].pop(0) for each in (git, oci)]

    assert git == oci
    assert [sorted(each) for each in sources] == [
        ["helm", "path", "repoURL", "targetRevision"],
        ["chart", "helm", "repoURL", "targetRevision"],
    ]
    assert sources[0]["helm"] == sources[1]["helm"]


def test_helm_release_of_a_registry_differs_from_its_twin_in_the_charts_source_and_the_values_alone() -> None:
    git, oci = manifest("flux/helmrelease.yaml"), manifest("flux/helmrelease-oci.yaml")

    del git["spec"]["chart"], oci["spec"]["chartRef"]
    values = oci["spec"].pop("values")

    assert git == oci
    assert values == manifest("run1.yaml")
