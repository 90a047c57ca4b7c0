"""Test which place in git is reported for the values of a release of Argo CD or Flux. A fake API serves the objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import choose
from distrain.release import values_in_git
from distrain.release.changes import settings
from distrain.release.owner import Owner
from distrain.release.values_in_git import Place
from lab.paths import REPOSITORY
from tests.plugin.fake_api import FakeApi
from tests.plugin.objects import Object

APPLICATIONS = "/apis/argoproj.io/v1alpha1/applications"
RUNS = "https://git.example.com/team/runs.git"
OF_GIT = {"repoURL": RUNS, "targetRevision": "main"}
CHART = {"repoURL": "https://git.example.com/team/distrain.git", "path": "charts/distrain", "targetRevision": "v1"}
OF_CHART = "the chart is charts/distrain of https://git.example.com/team/distrain.git, revision v1"
FLUX = "toolkit.fluxcd.io"


@pytest.fixture
def server(api: FakeApi, tmp_path: Path) -> Cluster:
    config = str(api.kubeconfig(tmp_path))
    return connect(choose(kubeconfig=config, context=None, namespace=None))


def _application(name: str = "run1", namespace: str = "argocd", *, to: str = "team", **more: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    status = more.pop("status", {})
    return {"metadata": metadata, "spec": {"destination": {"namespace": to}, **more}, "status": status}


def _steps(place: Place, old: Object, new: Object) -> list[str]:
    return values_in_git.steps("run1", place, settings(old, new))


def _found(server: Cluster, found: Owner | None = None) -> Place:
    return values_in_git.find(server, found or Owner("Application", "run1"), "team")


SIZES = {"workers": {"replicas": 2}, "image": {"tag": "a"}}
LARGER = {"workers": {"replicas": 4}}


@pytest.mark.parametrize(
    ("spec", "step"),
    [
        pytest.param(
            {"source": {**CHART, "helm": {"valuesObject": SIZES}}},
            f"under spec.source.helm.valuesObject of the Application; {OF_CHART}",
            id="values-object",
        ),
        pytest.param(
            {"source": {**CHART, "helm": {"values": "workers: {replicas: 2}"}}},
            f"under spec.source.helm.values of the Application; {OF_CHART}",
            id="values-as-text",
        ),
        pytest.param(
            {"source": CHART}, f"under spec.source.helm.valuesObject of the Application; {OF_CHART}", id="no-values"
        ),
        pytest.param(
            {"source": {**CHART, "helm": {"valueFiles": ["base.yaml", "runs/run1.yaml"]}}},
            f"in charts/distrain/runs/run1.yaml of {CHART['repoURL']}, revision v1; {OF_CHART}",
            id="file-beside-the-chart",
        ),
        pytest.param(
            {"source": {**CHART, "helm": {"valueFiles": ["/runs/run1.yaml"]}}},
            f"in runs/run1.yaml of {CHART['repoURL']}, revision v1; {OF_CHART}",
            id="file-from-the-root",
        ),
        pytest.param(
            {
                "sources": [
                    {"repoURL": RUNS, "targetRevision": "main", "ref": "runs"},
                    {**CHART, "helm": {"valueFiles": ["$runs/team/run1.yaml"]}},
                ]
            },
            f"in team/run1.yaml of {RUNS}, revision main; {OF_CHART}",
            id="file-of-another-source",
        ),
        pytest.param(
            {"sources": [{**CHART, "helm": {"valueFiles": ["$runs/team/run1.yaml"]}}]},
            f"in team/run1.yaml of the source runs; {OF_CHART}",
            id="file-of-a-source-that-is-missing",
        ),
        pytest.param(
            {"source": {**CHART, "helm": {"valueFiles": ["values.yaml", "../../runs/run1.yaml"]}}},
            f"in runs/run1.yaml of {CHART['repoURL']}, revision v1; {OF_CHART}",
            id="file-above-the-chart",
        ),
        pytest.param(
            {"source": {**CHART, "helm": {"valueFiles": ["values.yaml"]}}},
            f"under spec.source.helm.valuesObject of the Application; {OF_CHART}",
            id="file-of-all-runs",
        ),
        pytest.param(
            {"source": {"repoURL": "registry", "chart": "distrain", "helm": {"valueFiles": ["gpu.yaml"]}}},
            "under spec.source.helm.valuesObject of the Application; the chart is distrain of registry, revision HEAD",
            id="file-inside-a-packed-chart",
        ),
        pytest.param(
            {"sources": [{"repoURL": RUNS, "path": "more"}, {**CHART, "helm": {"valuesObject": SIZES}}]},
            f"under spec.sources[1].helm.valuesObject of the Application; {OF_CHART}",
            id="object-of-the-second-source",
        ),
        pytest.param(
            {"source": {**CHART, "helm": {"parameters": [{"name": "workers.replicas", "value": "2"}]}}},
            f"among spec.source.helm.parameters of the Application; {OF_CHART}",
            id="parameter-wins",
        ),
    ],
)
def test_line_to_write_is_named_with_its_place_in_an_application(
    api: FakeApi, server: Cluster, spec: Object, step: str
) -> None:
    api.answers[APPLICATIONS] = [_application(**spec)]

    assert _steps(_found(server), {"workers": {"replicas": 2}}, LARGER) == [f"run1: write `workers.replicas: 4` {step}"]


@pytest.mark.parametrize(
    ("application", "step"),
    [
        pytest.param(
            {"source": {**OF_GIT, "path": "rendered/run1"}, "status": {"sourceType": "Directory"}},
            f"in the values from which rendered/run1 of {RUNS}, revision main is rendered",
            id="manifests-in-git",
        ),
        pytest.param(
            {
                "sources": [{**OF_GIT, "path": "kustomized"}, {**OF_GIT, "ref": "values"}],
                "status": {"sourceTypes": ["Kustomize", "Directory"]},
            },
            f"in the values from which kustomized of {RUNS}, revision main is rendered",
            id="kustomize",
        ),
        pytest.param(
            {"sources": [{**OF_GIT, "path": "more"}, CHART], "status": {"sourceTypes": ["Directory", "Helm"]}},
            f"under spec.sources[1].helm.valuesObject of the Application; {OF_CHART}",
            id="chart-beside-other-manifests",
        ),
        pytest.param(
            {"sourceHydrator": {"drySource": {**OF_GIT, "path": "run1"}}, "status": {"sourceType": "Directory"}},
            f"among the values of run1 of {RUNS}, revision main",
            id="hydrated",
        ),
        pytest.param(
            {"sourceHydrator": {"drySource": {**CHART, "helm": {"valuesObject": SIZES}}}},
            f"under spec.sourceHydrator.drySource.helm.valuesObject of the Application; {OF_CHART}",
            id="hydrated-with-helms-settings",
        ),
    ],
)
def test_manifests_that_argo_cd_does_not_render_itself_are_changed_where_they_come_from(
    api: FakeApi, server: Cluster, application: Object, step: str
) -> None:
    api.answers[APPLICATIONS] = [_application(**application)]

    place = _found(server)

    assert _steps(place, SIZES, LARGER) == [f"run1: write `workers.replicas: 4` and remove `image.tag` {step}"]
    assert (place.inline is None) == (" of the Application" not in step)


@pytest.mark.parametrize("text", ["{{bad", "- 1", "workers"])
def test_values_that_argo_cd_cannot_read_are_named(api: FakeApi, server: Cluster, text: str) -> None:
    api.answers[APPLICATIONS] = [_application(source={**CHART, "helm": {"values": text}})]

    place = _found(server)

    note = "is no YAML of the form KEY: VALUE; Argo CD cannot apply it"
    assert (place.inline, place.notes) == (None, [f"spec.source.helm.values of the Application {note}"])


def test_empty_values_are_known(api: FakeApi, server: Cluster) -> None:
    api.answers[APPLICATIONS] = [_application(source={**CHART, "helm": {"values": "# none\n"}})]

    place = _found(server)

    assert (place.inline, place.notes) == ({}, [])


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"valueFiles": ["values.yaml"]}, id="values"),
        pytest.param({"fileParameters": [{"name": "image.tag", "path": "tag.txt"}]}, id="parameter"),
    ],
)
def test_values_are_not_known_if_files_add_to_them(api: FakeApi, server: Cluster, files: Object) -> None:
    api.answers[APPLICATIONS] = [_application(source={**CHART, "helm": {"valuesObject": SIZES, **files}})]

    assert _found(server).inline is None


def test_of_two_applications_of_a_name_the_one_that_deploys_to_the_namespace_counts(
    api: FakeApi, server: Cluster
) -> None:
    api.answers[APPLICATIONS] = [_application(namespace="a", to="other"), _application(namespace="b")]

    assert _found(server).owner == Owner("Application", "run1", "b")


def test_application_is_read_in_argo_cds_own_namespace_if_a_list_is_forbidden(api: FakeApi, server: Cluster) -> None:
    api.answers[APPLICATIONS] = 403
    path = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/run1"
    api.answers[path] = _application(source={**CHART, "helm": {"valuesObject": SIZES}})

    found = _found(server)

    assert (found.owner.namespace, found.inline) == ("argocd", SIZES)


@pytest.mark.parametrize(
    ("status", "why"),
    [(403, "you may not read the Application"), (404, "this cluster has no such Application")],
)
def test_application_that_cannot_be_read_is_named_with_what_is_known(
    api: FakeApi, server: Cluster, status: int, why: str
) -> None:
    api.answers[APPLICATIONS] = status

    assert _steps(_found(server), {}, LARGER) == [
        "run1: write `workers.replicas: 4` under spec.source.helm of the Application, in the git repository that holds "
        f"it; {why}, so its repository and file are not known"
    ]


@pytest.mark.parametrize(
    ("metadata", "makers"),
    [
        ({"ownerReferences": [{"kind": "ApplicationSet", "name": "runs"}]}, "ApplicationSet runs"),
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "apps:argoproj.io/Application:argocd/run1"}},
            "Argo CD's Application apps",
        ),
    ],
    ids=["application-set", "app-of-apps"],
)
def test_maker_of_the_application_is_named(api: FakeApi, server: Cluster, metadata: Object, makers: str) -> None:
    api.answers[APPLICATIONS] = [_application(metadata=metadata, source=CHART)]

    assert _steps(_found(server), {}, LARGER)[1:] == [
        f"run1: the Application itself is made by {makers}: change it there"
    ]


def _serve_flux(api: FakeApi, *, marks: dict[str, str] | None = None, **spec: Any) -> Owner:
    """Serve the HelmRelease run1 with the labels `marks`.

    Also serve the Kustomization and the GitRepository from which Flux applies the HelmRelease.
    """
    for group, version, kinds in (
        ("helm", "v2", ["HelmRelease"]),
        ("kustomize", "v1", ["Kustomization"]),
        ("source", "v1", ["GitRepository"]),
    ):
        api.serve_group(f"{group}.{FLUX}", {version: kinds})
    metadata = {"name": "run1", "namespace": "team", "labels": marks or {}}
    api.answers[f"/apis/helm.{FLUX}/v2/namespaces/team/helmreleases/run1"] = {"metadata": metadata, "spec": spec}
    applied = {"path": "./runs", "sourceRef": {"kind": "GitRepository", "name": "runs"}}
    api.answers[f"/apis/kustomize.{FLUX}/v1/namespaces/flux-system/kustomizations/all"] = {
        "metadata": {"name": "all", "namespace": "flux-system"},
        "spec": applied,
    }
    git = {"url": RUNS, "ref": {"branch": "main"}}
    api.answers[f"/apis/source.{FLUX}/v1/namespaces/flux-system/gitrepositories/runs"] = {"spec": git}
    return Owner("HelmRelease", "run1", "team")


OF_RUNS = f"GitRepository runs in namespace flux-system ({RUNS}, branch main)"


def test_helm_release_is_named_with_the_repository_that_holds_it_and_that_of_its_chart(
    api: FakeApi, server: Cluster
) -> None:
    ref = {"kind": "GitRepository", "name": "charts", "namespace": "flux-system"}
    marks = {f"kustomize.{FLUX}/name": "all", f"kustomize.{FLUX}/namespace": "flux-system"}
    found = _serve_flux(api, marks=marks, chart={"spec": {"chart": "./charts/distrain", "sourceRef": ref}})

    assert _steps(_found(server, found), SIZES, LARGER) == [
        "run1: write `workers.replicas: 4` and remove `image.tag` under spec.values of the HelmRelease, in ./runs of "
        f"{OF_RUNS}; the chart is ./charts/distrain of GitRepository charts in namespace flux-system"
    ]


def test_version_that_the_api_server_writes_by_itself_is_not_named(api: FakeApi, server: Cluster) -> None:
    ref = {"kind": "GitRepository", "name": "runs", "namespace": "flux-system"}
    chart = {"spec": {"chart": "./charts/distrain", "version": "*", "sourceRef": ref}}

    assert _found(server, _serve_flux(api, chart=chart)).rest == f"the chart is ./charts/distrain of {OF_RUNS}"


def test_helm_release_of_a_chart_ref_without_a_kustomization_is_in_the_repository_that_holds_it(
    api: FakeApi, server: Cluster
) -> None:
    ref = {"kind": "GitRepository", "name": "runs", "namespace": "flux-system"}

    place = _found(server, _serve_flux(api, chartRef=ref))

    assert place.where == "under spec.values of the HelmRelease, in the git repository that holds it"
    assert place.rest == f"the chart is {OF_RUNS}"


def test_helm_release_that_names_no_chart_is_named_without_one(api: FakeApi, server: Cluster) -> None:
    assert _found(server, _serve_flux(api)).rest == ""


VALUES_FILES = ["./charts/distrain/values.yaml", "./runs/run1.yaml"]


@pytest.mark.parametrize(
    ("more", "files", "kind", "where"),
    [
        pytest.param({}, VALUES_FILES, "GitRepository", f"in runs/run1.yaml of {OF_RUNS}", id="file"),
        pytest.param({"values": {"gpus": 8}}, VALUES_FILES, "GitRepository", "", id="values-win"),
        pytest.param(
            {"valuesFrom": [{"kind": "ConfigMap", "name": "a"}]}, VALUES_FILES, "GitRepository", "", id="objects-win"
        ),
        pytest.param({}, VALUES_FILES[:1], "GitRepository", "", id="file-of-the-chart"),
        pytest.param({}, ["gpu.yaml"], "HelmRepository", "", id="file-inside-a-packed-chart"),
    ],
)
def test_values_file_of_a_helm_release_is_named_unless_other_values_win(
    api: FakeApi, server: Cluster, more: Object, files: list[str], kind: str, where: str
) -> None:
    ref = {"kind": kind, "name": "runs", "namespace": "flux-system"}
    chart = {"spec": {"chart": "./charts/distrain", "sourceRef": ref, "valuesFiles": files}}

    place = _found(server, _serve_flux(api, chart=chart, **more))

    assert place.where == (where or "under spec.values of the HelmRelease, in the git repository that holds it")


@pytest.mark.parametrize("file", ["flux/helmrelease.yaml", "argocd/application.yaml"])
def test_values_file_of_the_pages_examples_is_found(api: FakeApi, server: Cluster, file: str) -> None:
    example = yaml.safe_load((REPOSITORY / "docs" / file).read_text(encoding="utf-8"))
    if example["kind"] == "HelmRelease":
        place = _found(server, _serve_flux(api, **example["spec"]))
    else:
        api.answers[APPLICATIONS] = [example]
        place = _found(server)

    assert place.where.startswith("in runs/run1.yaml of ")


def test_helm_release_that_may_not_be_read_is_named_with_what_is_known(api: FakeApi, server: Cluster) -> None:
    found = _serve_flux(api)
    api.answers[f"/apis/helm.{FLUX}/v2/namespaces/team/helmreleases/run1"] = 403

    [step] = _steps(_found(server, found), {}, LARGER)

    assert step.endswith("; you may not read the HelmRelease, so its repository and file are not known")


def test_job_of_a_kustomization_is_changed_where_its_manifest_comes_from(api: FakeApi, server: Cluster) -> None:
    _serve_flux(api)

    [step] = _steps(_found(server, Owner("Kustomization", "all", "flux-system")), {}, LARGER)

    assert step == f"run1: write `workers.replicas: 4` in the values from which ./runs of {OF_RUNS} is rendered"


def test_kustomization_that_may_not_be_read_is_named_with_what_is_known(api: FakeApi, server: Cluster) -> None:
    _serve_flux(api)
    api.answers[f"/apis/kustomize.{FLUX}/v1/namespaces/flux-system/kustomizations/all"] = 403

    [step] = _steps(_found(server, Owner("Kustomization", "all", "flux-system")), {}, LARGER)

    assert "folder of Flux's Kustomization all in namespace flux-system (you may not read the Kustomization," in step


@pytest.mark.parametrize(
    ("number", "last"),
    [
        pytest.param(5, "`x3: 3` and `x4: 4`", id="all"),
        pytest.param(7, "`x3: 3`, `x4: 4` and 2 more", id="counted"),
    ],
)
def test_many_lines_are_counted(number: int, last: str) -> None:
    place = Place(Owner("HelmRelease", "run1", "team"), "there")

    [step] = _steps(place, {}, {f"x{each}": each for each in range(number)})

    assert step == f"run1: write `x0: 0`, `x1: 1`, `x2: 2`, {last} there"
