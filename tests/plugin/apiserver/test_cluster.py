"""Test how the plugin reads a cluster over HTTP: pages, refusals, timeouts."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from distrain import kube
from distrain.apiserver.cluster import METADATA, Cluster, connect
from distrain.apiserver.connection import Answer
from distrain.apiserver.pages import PAGE_SIZE
from distrain.apiserver.responses import refusal
from distrain.apiserver.target import Target
from distrain.errors import ForbiddenError, UnreachableError
from distrain.kube.resource import Resource
from distrain.workload.kinds import RENDERED_GROUPS
from tests.plugin.fake_api import FakeApi, write_kubeconfig
from tests.plugin.objects import node, pod


def _cluster(api: FakeApi, folder: Path) -> Cluster:
    return connect(Target(str(api.kubeconfig(folder)), "fake", "team"))


def test_long_lists_are_read_page_by_page(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/pods"] = [pod("p", on=f"n{number}") for number in range(2 * PAGE_SIZE + 1)]

    found = _cluster(api, tmp_path).over_pods(lambda pods: [each.node_name for each in pods])

    assert sorted(found) == sorted(f"n{number}" for number in range(2 * PAGE_SIZE + 1))
    assert len(api.requests) == 3
    assert all("fieldSelector=status.phase" in request for request in api.requests)


def test_served_apis_are_listed_with_their_kinds(api: FakeApi, tmp_path: Path) -> None:
    api.serve_mpi_jobs()

    capabilities = _cluster(api, tmp_path).capabilities(RENDERED_GROUPS)

    assert capabilities.version == "v1.34.4"
    assert capabilities.apis == ("kubeflow.org/v2beta1", "kubeflow.org/v2beta1/MPIJob")


def test_what_monitoring_is_served_is_listed(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/version"] = {"gitVersion": "v1.34.4"}
    api.answers["/apis/monitoring.coreos.com"] = {"versions": [{"groupVersion": "monitoring.coreos.com/v1"}]}
    api.answers["/apis/monitoring.coreos.com/v1"] = {"resources": [{"name": "podmonitors", "kind": "PodMonitor"}]}

    assert "monitoring.coreos.com/v1/PodMonitor" in _cluster(api, tmp_path).capabilities(RENDERED_GROUPS).apis


def test_cluster_without_an_operator_serves_none(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/version"] = {"gitVersion": "v1.34.4"}

    assert _cluster(api, tmp_path).capabilities(RENDERED_GROUPS).apis == ()


@pytest.mark.parametrize(("plural", "read"), [("nodes", "nodes"), ("pods", "pods of all namespaces")])
def test_what_may_not_be_listed_is_named(api: FakeApi, tmp_path: Path, plural: str, read: str) -> None:
    api.answers |= {"/api/v1/nodes": [node("a")], "/api/v1/pods": [], f"/api/v1/{plural}": 403}
    cluster = _cluster(api, tmp_path)

    with pytest.raises(ForbiddenError, match=rf"^{read} cannot be read: .*; ask for a role that allows `get`"):
        _ = cluster.nodes(), cluster.over_pods(list)


def test_refused_credentials_are_unreachable(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/nodes"] = 401

    with pytest.raises(UnreachableError, match=r"does not accept your credentials; check KUBECONFIG"):
        _cluster(api, tmp_path).nodes()


def test_missing_right_is_the_one_that_the_api_server_names() -> None:
    words = 'namespaces "team" is forbidden: User "a" cannot get resource "namespaces" in API group ""'
    answer = Answer(403, memoryview(json.dumps({"kind": "Status", "message": words}).encode()))

    error = refusal(answer, "namespace team", "https://kube")

    assert str(error) == f"namespace team cannot be read: {words}; ask for a role that allows `get` on namespaces"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, r"nodes cannot be read: http.* answers 500: .*refused with 500; try again"),
        (429, r"nodes cannot be read: http.* answers 429: .*refused with 429; try again"),
        (400, r"nodes cannot be read: http.* answers 400: .*refused with 400; check KUBECONFIG and --kube-context"),
        (404, r"http.* does not answer like Kubernetes: .*refused with 404; check KUBECONFIG and --kube-context"),
    ],
)
def test_failing_server_is_quoted_with_the_next_step(api: FakeApi, tmp_path: Path, status: int, words: str) -> None:
    api.answers["/api/v1/nodes"] = status

    with pytest.raises(UnreachableError, match=f"^{words}$"):
        _cluster(api, tmp_path).nodes()


def test_missing_job_is_distinguished_from_a_silent_cluster(api: FakeApi, tmp_path: Path) -> None:
    assert _cluster(api, tmp_path).workload(Resource("kubeflow.org/v2beta1", "MPIJob", "run1"), "team") is None


@pytest.mark.parametrize(
    ("version", "kind", "path"),
    [
        ("kubeflow.org/v1", "PyTorchJob", "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs/run1"),
        ("batch/v1", "Job", "/apis/batch/v1/namespaces/team/jobs/run1"),
    ],
)
def test_job_of_each_kind_is_read_with_its_conditions(
    api: FakeApi, tmp_path: Path, version: str, kind: str, path: str
) -> None:
    api.answers[path] = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}

    state = _cluster(api, tmp_path).workload(Resource(version, kind, "run1"), "team")

    assert state
    assert [condition.type for condition in state.status.conditions or ()] == ["Failed"]


def test_of_an_object_only_its_metadata_may_be_asked_for(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/api/v1/namespaces/team/secrets/keys"] = {"metadata": {"name": "keys"}}

    path = "/api/v1/namespaces/team/secrets/keys"
    found = _cluster(api, tmp_path).read_one(path, kube.Named, "Secret keys", METADATA)

    assert found.metadata.name == "keys"
    assert api.accepted[-1] == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def test_something_else_than_kubernetes_is_one_line(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/version"] = {"gitVersion": 7}

    with pytest.raises(UnreachableError, match=r"does not answer like Kubernetes: [^\n]*; check KUBECONFIG"):
        _cluster(api, tmp_path).capabilities(RENDERED_GROUPS)


def test_server_without_a_version_is_no_kubernetes(api: FakeApi, tmp_path: Path) -> None:
    api.answers["/version"] = 404

    with pytest.raises(UnreachableError, match=f"^{api.url} does not answer like Kubernetes: its version: .*; check"):
        _cluster(api, tmp_path).version()


def test_closed_port_is_reported_at_once(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        path = write_kubeconfig(tmp_path, f"https://127.0.0.1:{port}")
        started = time.monotonic()

        with pytest.raises(
            UnreachableError, match=r"^the cluster at https://127.0.0.1:\d+ cannot be reached: Connection"
        ):
            connect(Target(str(path), "fake", "team")).nodes()

    # The plugin retries a broken connection for 40 s. The plugin must not retry here.
    assert time.monotonic() - started < 30


def test_tls_that_fails_is_one_line(api: FakeApi, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, api.url.replace("http://", "https://"))

    with pytest.raises(
        UnreachableError,
        match=r"^the cluster at https://\S* cannot be reached: the server answers without TLS; write http://[^\n]*$",
    ):
        connect(Target(str(path), "fake", "team")).nodes()


def test_name_that_does_not_resolve_is_reported(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://no-such-host.invalid:6443")

    with pytest.raises(UnreachableError, match=r"no-such-host.invalid:6443 cannot be reached: .*; check KUBECONFIG"):
        connect(Target(str(path), "fake", "team")).nodes()
