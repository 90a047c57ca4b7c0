"""Test that a release of Argo CD or Flux is never changed: changes are only planned. Use real Helm and a fake API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.apiserver.target import Target
from distrain.errors import HelmError
from distrain.helm.releases import Releases, Status
from tests.plugin.fake_api import releases
from tests.plugin.objects import Object
from tests.plugin.program import SECRETS, Run, wrote_nothing
from tests.plugin.release.recorded import JOBS, VALUES, Recorded

APPLICATIONS = "/apis/argoproj.io/v1alpha1/applications"
SOURCE = {"repoURL": "https://git.example.com/distrain.git", "path": "charts/distrain", "targetRevision": "main"}
OF_FLUX = {"helm.toolkit.fluxcd.io/name": "run1", "helm.toolkit.fluxcd.io/namespace": "team"}
OF_ARGO = {"argocd.argoproj.io/tracking-id": "run1:kubeflow.org/MPIJob:team/run1"}
BY_FLUX = "distrain: run1: belongs to Flux's HelmRelease run1 in namespace team, which would undo the change: "
BY_ARGO = "distrain: run1: belongs to Argo CD's Application run1 in namespace argocd, which would undo the change: "

pytestmark = [pytest.mark.usefixtures("signals"), pytest.mark.either_helm]


@pytest.fixture(autouse=True)
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If `helm status` fails, pretend that it reports a deployed release.

    `helm status` reads every object of a release from the API server, and the fake API does not have these objects.
    """
    find = Releases.status

    def status(self: Releases, name: str, target: Target) -> Status | None:
        try:
            return find(self, name, target)
        except HelmError:
            return Status("deployed", 3)

    monkeypatch.setattr(Releases, "status", status)


def _owned_by_flux(running: Recorded) -> None:
    running.show(metadata={**running.job["metadata"], "labels": OF_FLUX})


def _owned_by_argo(running: Recorded, helm: Object, application: str = "run1", **metadata: Any) -> Object:
    """Make the job part of an Argo CD Application whose Helm settings are `helm`. Return the Application.

    Argo CD only renders the chart, so Helm has no record of a release.
    """
    running.api.answers[SECRETS] = releases()
    job = {**running.job, "metadata": {**running.job["metadata"], **(metadata or {"annotations": OF_ARGO})}}
    running.api.answers[JOBS] = [job]
    made = {
        "metadata": {"name": application, "namespace": "argocd"},
        "spec": {"source": {**SOURCE, "helm": helm}, "destination": {"namespace": "team"}},
    }
    running.api.answers[APPLICATIONS] = [made]
    return made


RESCALE = ["rescale", "run1", "--workers", "3"]


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        pytest.param(RESCALE, "write `gpus: 3` and `workers.replicas: 3` under", id="rescale"),
        pytest.param(
            ["upgrade", "run1", "--reuse-values", "--set", "trainer.steps=900"],
            "write `trainer.steps: 900` under",
            id="upgrade",
        ),
        pytest.param(
            ["upgrade", "run1", "--install", "--reuse-values", "--set", "trainer.steps=900"],
            "write `trainer.steps: 900` under",
            id="upgrade-install",
        ),
    ],
)
def test_release_of_flux_is_not_changed(run: Run, running: Recorded, command: list[str], lines: str) -> None:
    _owned_by_flux(running)

    outcome = run(*command, "--yes")

    first, second = outcome.err.splitlines()
    assert (outcome.code, first) == (2, f"{BY_FLUX}nothing was changed")
    assert second.startswith(f"distrain: run1: {lines} spec.values of the HelmRelease, ")
    assert (outcome.out, running.upgrades) == ("", [])
    assert wrote_nothing(running.api)


def test_release_of_flux_is_not_installed_again(run: Run, running: Recorded) -> None:
    running.manifest = running.manifest.replace("  labels:", f"  labels:\n    {'helm.toolkit.fluxcd.io/name'}: run1", 1)
    running.be()

    outcome = run("install", "run1", "--set", "trainer.steps=900")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: run1: belongs to Flux's HelmRelease run1, which would undo the change: ")
    assert wrote_nothing(running.api)


def test_dry_run_shows_the_plan_of_a_release_of_flux(run: Run, running: Recorded) -> None:
    _owned_by_flux(running)

    outcome = run(*RESCALE, "--dry-run")

    assert (outcome.code, outcome.out.splitlines()[0]) == (0, "run1: revision 3 -> 4")
    assert "  live      MPIJob run1: spec.mpiReplicaSpecs.Worker.replicas: 2 -> 3\n" in outcome.out
    assert outcome.err.startswith(BY_FLUX)


def test_plan_of_a_release_of_flux_keeps_the_values_of_its_values_files(run: Run, running: Recorded) -> None:
    _owned_by_flux(running)
    running.be_of_values_files(chart="0.1.0+1b48d28cd4de.1")

    outcome = run(*RESCALE, "--dry-run")

    values = [line for line in outcome.out.splitlines() if line.startswith("  value ")]
    assert (outcome.code, values) == (0, ["  value     gpus: 2 -> 3", "  value     workers.replicas: 2 -> 3"])
    assert outcome.err.startswith(BY_FLUX)
    assert "write `gpus: 3` and `workers.replicas: 3` under" in outcome.err


def test_plan_of_a_run_of_argo_cd_adds_no_size_of_dev_shm(run: Run, running: Recorded) -> None:
    _owned_by_argo(running, {"valuesObject": {"workers": {"replicas": 2, "gpus": 4}}})

    outcome = run("rescale", "run1", "--workers", "1", "--dry-run")

    values = [line for line in outcome.out.splitlines() if line.startswith("  value ")]
    assert values == ["  value     workers.replicas: 2 -> 1"]
    assert "write `workers.replicas: 1` under" in outcome.err


def test_upgrade_of_a_release_of_flux_names_only_what_its_values_files_lack(
    run: Run, running: Recorded, tmp_path: Path
) -> None:
    _owned_by_flux(running)
    running.be_of_values_files(chart="0.1.0+1b48d28cd4de.1")
    file = tmp_path / "run1.yaml"
    file.write_text(yaml.safe_dump({**VALUES, "trainer": {"steps": 900}}))

    outcome = run("upgrade", "run1", "-f", str(file), "--yes")

    assert outcome.code == 2
    assert "distrain: run1: write `trainer.steps: 900` under spec.values" in outcome.err


def test_failed_revision_of_flux_is_not_rolled_back_by_hand(run: Run, running: Recorded) -> None:
    _owned_by_flux(running)
    running.be("failed")

    outcome = run(*RESCALE, "--dry-run")

    first, second = outcome.err.splitlines()
    words = "the last revision, 3, is not deployed but failed, and only Flux's HelmRelease run1 in namespace team"
    assert (outcome.code, first) == (2, f"distrain: run1: {words} may change this release")
    assert second.startswith("distrain: run1: change the values under spec.values of the HelmRelease, ")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([*RESCALE, "--yes"], id="rescale"),
        pytest.param(
            ["upgrade", "run1", "--reuse-values", "--set", "workers.replicas=3,gpus=3", "--yes"], id="upgrade"
        ),
    ],
)
def test_run_of_argo_cd_is_not_changed(run: Run, running: Recorded, command: list[str]) -> None:
    _owned_by_argo(running, {"valuesObject": VALUES})

    outcome = run(*command)

    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        f"{BY_ARGO}nothing was changed",
        "distrain: run1: write `gpus: 3` and `workers.replicas: 3` under spec.source.helm.valuesObject of the "
        "Application; the chart is charts/distrain of https://git.example.com/distrain.git, revision main",
    ]
    assert (outcome.out, running.upgrades) == ("", [])
    assert wrote_nothing(running.api)


@pytest.mark.parametrize("verb", [["install"], ["upgrade", "--install", "--yes"]], ids=lambda words: words[0])
def test_run_of_argo_cd_is_not_installed_over(run: Run, running: Recorded, verb: list[str]) -> None:
    _owned_by_argo(running, {"valueFiles": ["run1.yaml"]})

    outcome = run(*verb, "run1", "--set", "workers.gpus=1")

    assert outcome.code == 2
    assert outcome.err.startswith(f"{BY_ARGO}nothing was changed\n")
    assert "write `workers.gpus: 1` in charts/distrain/run1.yaml of https://git" in outcome.err
    assert wrote_nothing(running.api)


def test_run_that_only_the_label_of_the_chart_marks_is_found_by_its_application(run: Run, running: Recorded) -> None:
    _owned_by_argo(running, {"valuesObject": VALUES}, annotations={})

    outcome = run(*RESCALE, "--yes")

    assert (outcome.code, outcome.err.startswith(f"{BY_ARGO}nothing was changed\n")) == (2, True)


@pytest.mark.parametrize(("label", "namespace"), [("app", "argocd"), ("blue_app", "blue")])
def test_run_whose_label_argo_cd_has_changed_is_found_by_the_application_of_the_label(
    run: Run, running: Recorded, label: str, namespace: str
) -> None:
    labels = {**running.job["metadata"]["labels"], "app.kubernetes.io/instance": label, "distrain/instance": "run1"}
    application = _owned_by_argo(running, {"valuesObject": VALUES}, "app", annotations={}, labels=labels)
    application["metadata"]["namespace"] = namespace
    running.api.answers[f"{Path(APPLICATIONS).parent}/namespaces/{namespace}/applications/app"] = application

    outcome = run(*RESCALE, "--yes")

    words = f"distrain: run1: belongs to Argo CD's Application app in namespace {namespace}"
    assert (outcome.code, outcome.err.startswith(words)) == (2, True)


def test_job_that_helm_and_argo_cd_did_not_make_is_changed_with_what_made_it(run: Run, running: Recorded) -> None:
    _owned_by_argo(running, {}, annotations={})
    running.api.answers[APPLICATIONS] = []

    outcome = run(*RESCALE, "--yes")

    change = "change MPIJob run1 with the tool that created it"
    words = f"run1: is not a Helm release in namespace team; Helm did not create it: {change}"
    assert (outcome.code, outcome.err) == (2, f"distrain: {words}\n")


@pytest.mark.parametrize("flags", [(), ("--install",)], ids=["upgrade", "upgrade-install"])
def test_dry_run_shows_the_plan_of_a_run_whose_values_its_application_holds(
    run: Run, running: Recorded, flags: tuple[str, ...]
) -> None:
    parameters = [{"name": "trainer.steps", "value": "700"}, {"name": "podAnnotations.note", "value": "a,b"}]
    _owned_by_argo(running, {"valuesObject": VALUES, "parameters": parameters})

    outcome = run("upgrade", "run1", "--dry-run", "--reuse-values", "--set", "trainer.steps=900", *flags)

    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[:3] == [
        "run1: values before -> values after",
        "  value     trainer.steps: 700 -> 900",
        "  replaced  MPIJob run1: ended, then created anew",
    ]
    assert "write `trainer.steps: 900` among spec.source.helm.parameters of the Application" in outcome.err
    assert wrote_nothing(running.api)


def test_values_of_an_application_that_the_schema_refuses_are_named(run: Run, running: Recorded) -> None:
    _owned_by_argo(running, {"valuesObject": {**VALUES, "wrokers": {}}})

    outcome = run(*RESCALE, "--dry-run")

    assert outcome.code == 2
    assert outcome.err.startswith("distrain: Argo CD's Application run1 in namespace argocd: wrokers: ")


def test_total_of_gpus_becomes_workers_as_argo_cd_spreads_none(run: Run, running: Recorded) -> None:
    _owned_by_argo(running, {"valueFiles": ["run1.yaml"]})

    outcome = run("rescale", "run1", "--gpus", "3", "--yes")

    assert outcome.code == 2
    assert "write `workers.replicas: 3` in charts/distrain/run1.yaml of " in outcome.err


@pytest.mark.parametrize(
    ("each", "words"),
    [
        pytest.param(
            "2",
            "--gpus: 3 cannot be divided evenly into workers of 2 GPUs (workers.gpus); ask for 2 or 4, or",
            id="rest",
        ),
        pytest.param(
            "8", "--gpus: 3 cannot be divided evenly into workers of 8 GPUs (workers.gpus); ask for 8, or", id="less"
        ),
        pytest.param(
            "0",
            "--gpus: the run trains on CPUs, because workers.gpus is 0; give the number of workers with --workers N",
            id="cpu",
        ),
    ],
)
def test_total_that_the_present_workers_cannot_have_is_refused(
    run: Run, running: Recorded, each: str, words: str
) -> None:
    _owned_by_argo(running, {"valueFiles": ["run1.yaml"]})
    text = json.dumps(running.api.answers[JOBS])
    assert text.count('"nvidia.com/gpu": 1') == 1
    running.api.answers[JOBS] = json.loads(text.replace('"nvidia.com/gpu": 1', f'"nvidia.com/gpu": {each}'))

    outcome = run("rescale", "run1", "--gpus", "3", "--yes")

    assert (outcome.code, outcome.err.startswith(f"distrain: {words}")) == (2, True), outcome.err
    assert wrote_nothing(running.api)


def test_dry_run_names_the_command_for_values_that_are_in_git_alone(run: Run, running: Recorded) -> None:
    _owned_by_argo(running, {"valueFiles": ["run1.yaml"]})

    outcome = run(*RESCALE, "--dry-run")

    last = "its values are in git, not in the cluster; `helm distrain upgrade run1 --dry-run --from BEFORE -f AFTER`"
    assert outcome.code == 2
    assert "write `workers.replicas: 3` in charts/distrain/run1.yaml of " in outcome.err
    assert outcome.err.splitlines()[-1].startswith(f"distrain: run1: {last} shows the plan")
