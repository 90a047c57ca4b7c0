"""Test that labels and annotations of a release's objects identify its owner."""

from __future__ import annotations

import pytest

from distrain.release.owner import Ownership, owner

FLUX = "toolkit.fluxcd.io"


@pytest.mark.parametrize(
    ("labels", "annotations", "found"),
    [
        pytest.param(
            {f"helm.{FLUX}/name": "run1", f"helm.{FLUX}/namespace": "team", f"kustomize.{FLUX}/name": "runs"},
            {},
            "Flux's HelmRelease run1 in namespace team",
            id="helm-release",
        ),
        pytest.param(
            {f"kustomize.{FLUX}/name": "runs", f"kustomize.{FLUX}/namespace": "flux-system"},
            {},
            "Flux's Kustomization runs in namespace flux-system",
            id="kustomization",
        ),
        pytest.param({"argocd.argoproj.io/instance": "run1"}, {}, "Argo CD's Application run1", id="argo-label"),
        pytest.param(
            {},
            {"argocd.argoproj.io/tracking-id": "run1:kubeflow.org/MPIJob:team/run1-1234abcd"},
            "Argo CD's Application run1",
            id="argo-annotation",
        ),
        pytest.param(
            {},
            {"argocd.argoproj.io/tracking-id": "ml_run1:kubeflow.org/MPIJob:team/run1-1234abcd"},
            "Argo CD's Application run1 in namespace ml",
            id="application-in-any-namespace",
        ),
        pytest.param(
            {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "run1"},
            {"meta.helm.sh/release-name": "run1"},
            None,
            id="helm",
        ),
    ],
)
def test_owner_is_told_by_its_marks(labels: dict[str, str], annotations: dict[str, str], found: str | None) -> None:
    owned = owner(Ownership(labels, annotations))

    assert (owned and owned.words) == found
