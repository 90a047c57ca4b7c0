"""Run Argo CD or Flux with the lab, and delete a test's objects afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.gitops import argocd, flux
from tests.cluster.gitops import argocd_application, flux_release
from tests.cluster.testbed import Namespace
from tests.matrix import one_of


@pytest.fixture(scope="module")
def _argo_cd(bucket: None) -> Iterator[None]:
    argocd.start()
    yield
    argocd.stop()


@pytest.fixture(scope="module", params=one_of(flux.HELM_CONTROLLERS))
def _helm_controller(bucket: None, request: pytest.FixtureRequest) -> Iterator[str]:
    flux.start(request.param)
    yield request.param
    flux.stop()


@pytest.fixture
def argo_cd(_argo_cd: None, namespace: Namespace) -> Iterator[None]:
    """Run Argo CD, and delete the test's Applications afterwards."""
    yield
    argocd_application.delete_all()


@pytest.fixture
def helm_controller(_helm_controller: str, namespace: Namespace) -> Iterator[str]:
    """Run Flux with this version of helm-controller.

    Afterwards delete the HelmReleases and sources that the test created.
    """
    yield _helm_controller
    flux_release.delete_all(namespace)
