"""Test that Argo CD and Flux train the digits to the end with the packaged chart, from git and from an OCI registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import registry
from lab.builds import package
from lab.cluster import client
from lab.cluster.operators import Operators
from lab.gitops import argocd
from lab.gitops.git import Repository
from lab.registry import USER, Registry
from lab.waiting import wait_until
from tests.cluster.gitops.argocd_application import Application
from tests.cluster.gitops.commits import kind_values, manifest
from tests.cluster.runs_of_kinds import KINDS
from tests.cluster.testbed import Namespace
from tests.registry_user import User

pytestmark = pytest.mark.full
SECONDS = 400
EPOCHS = {"trainer.epochs": 10}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.write_chart(tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="module")
def server(
    lab_operators: Operators, chart: Path, helm4: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """Serve the chart from a registry that has TLS and requires a login."""
    with registry.serve_on_lab(tmp_path_factory.mktemp("registry")) as served:
        user = User(helm4, tmp_path_factory.mktemp("home"), served)
        user.log_in()
        pushed = user.trusting("push", str(chart), user.charts)
        assert pushed.returncode == 0, pushed.stderr
        yield served


def test_argo_cd_takes_the_chart_from_the_registry(
    argo_cd: None, server: Registry, namespace: Namespace, on_s3: list[str]
) -> None:
    argocd.trust(server.endpoint[0], server.authority)
    login = {"type": "helm", "enableOCI": "true", "name": "registry", "url": f"{server.host}/charts"}
    labels = {"argocd.argoproj.io/secret-type": "repository"}
    _put_secret(argocd.NAMESPACE, {**login, "username": USER, "password": server.password}, labels=labels)

    application = Application.from_registry(namespace, kind_values(KINDS["mpijob"], **EPOCHS), server.host)

    wait_until("Healthy", lambda: application.state() == ("Synced", "Healthy"), seconds=SECONDS, pause=1)
    assert namespace.outcome() == "Succeeded"
    assert namespace.accuracy() > 0.9


def test_flux_takes_the_chart_from_the_registry(
    helm_controller: str, server: Registry, namespace: Namespace, on_s3: list[str]
) -> None:
    login = {"auths": {server.host: {"auth": base64.b64encode(f"{USER}:{server.password}".encode()).decode()}}}
    kind = "kubernetes.io/dockerconfigjson"
    _put_secret(namespace.name, {".dockerconfigjson": json.dumps(login)}, type=kind)
    _put_secret(namespace.name, {"ca.crt": server.authority.read_text()}, name="authority")
    source = manifest("flux/ocirepository.yaml", namespace, registry=server.host)
    source["spec"]["certSecretRef"] = {"name": "authority"}
    release = manifest("flux/helmrelease-oci.yaml", namespace)
    release["spec"]["values"] = yaml.safe_load(kind_values(KINDS["mpijob"], **EPOCHS))

    client.apply(source, release)

    _assert_trains(namespace)


def test_flux_takes_the_packaged_chart_from_git(
    helm_controller: str, chart: Path, namespace: Namespace, on_s3: list[str]
) -> None:
    repository = Repository.new("distrain")
    (repository.folder / chart.name).write_bytes(chart.read_bytes())
    repository.commit()
    release = manifest("flux/helmrelease.yaml", namespace)
    source = release["spec"]["chart"]["spec"]
    source["chart"] = f"./{chart.name}"
    # The chart is used with the values.yaml in its package. If the HelmRelease has valuesFiles, Flux does not read the
    # values.yaml of the package.
    del source["valuesFiles"]
    release["spec"]["values"] = yaml.safe_load(kind_values(KINDS["mpijob"], **EPOCHS))

    client.apply(manifest("flux/gitrepository.yaml", namespace, [repository]), release)

    _assert_trains(namespace)


def _assert_trains(namespace: Namespace) -> None:
    wait_until("a job", lambda: bool(namespace.get("mpijobs")), seconds=SECONDS, pause=0.5)
    assert namespace.wait_for_end(seconds=SECONDS) == "Succeeded"
    assert namespace.accuracy() > 0.9


def _put_secret(namespace: str, words: dict[str, str], name: str = "registry", **more: Any) -> None:
    labels = more.pop("labels", {})
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    client.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": words, **more})
