"""Test that a namespace counts as created by this installation even if the response to its creation is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from distrain.apiserver.cluster import Cluster, connect
from distrain.apiserver.target import Target
from distrain.errors import ForbiddenError, UnreachableError
from distrain.release import namespace
from tests.plugin.fake_api import FakeApi

NAMESPACES = "/api/v1/namespaces"


@pytest.fixture
def cluster(api: FakeApi, tmp_path: Path) -> Cluster:
    """Return a connection to a cluster that has no namespace `team`."""
    del api.answers[f"{NAMESPACES}/team"]
    api.answers["/version"] = {"gitVersion": "v1.34.4"}
    cluster = connect(Target(str(api.kubeconfig(tmp_path)), "fake", "team"))
    cluster.version()
    return cluster


@pytest.mark.parametrize("trouble", [200, 0, 500, 504], ids=["answered", "cut", "etcd-failed", "timed-out"])
def test_namespace_is_ours_even_if_the_answer_is_lost(api: FakeApi, cluster: Cluster, trouble: int) -> None:
    api.troubles[NAMESPACES] = [trouble]

    made = namespace.make(cluster, "team", "abc")

    assert made
    assert made.uid == api.answers[f"{NAMESPACES}/team"]["metadata"]["uid"]  # type: ignore[index, call-overload]


@pytest.mark.parametrize("trouble", [200, 0], ids=["answered", "cut"])
def test_namespace_of_another_installation_is_not_ours(api: FakeApi, cluster: Cluster, trouble: int) -> None:
    namespace.make(cluster, "team", "other")
    api.troubles[NAMESPACES] = [trouble]

    assert namespace.make(cluster, "team", "abc") is None


def test_namespace_that_may_not_be_read_is_not_ours(api: FakeApi, cluster: Cluster) -> None:
    api.answers[f"{NAMESPACES}/team"] = 403

    assert namespace.make(cluster, "team", "abc") is None


def test_lost_namespace_is_named_if_the_server_does_not_come_back(api: FakeApi, cluster: Cluster) -> None:
    api.troubles[NAMESPACES] = [503] * 9

    with pytest.raises(UnreachableError) as lost:
        namespace.make(cluster, "team", "abc")

    words = "namespace team: may have been created; try again, or remove it with `kubectl delete namespace team`"
    assert lost.value.messages[1:] == (words,)


def test_namespace_that_may_not_be_created_is_not_said_to_be_there(api: FakeApi, cluster: Cluster) -> None:
    api.troubles[NAMESPACES] = [403]

    with pytest.raises(ForbiddenError) as refused:
        namespace.make(cluster, "team", "abc")

    assert len(refused.value.messages) == 1


def test_namespace_is_deleted_even_if_the_answer_is_lost(api: FakeApi, cluster: Cluster) -> None:
    made = namespace.make(cluster, "team", "abc")
    assert made
    api.troubles[f"{NAMESPACES}/team"] = [0]

    assert namespace.remove(cluster, made) == "namespace team: deleted again"
    assert f"{NAMESPACES}/team" not in api.answers


def test_namespace_that_cannot_be_deleted_is_named_with_what_deletes_it(api: FakeApi, cluster: Cluster) -> None:
    made = namespace.make(cluster, "team", "abc")
    assert made
    api.troubles[f"{NAMESPACES}/team"] = [503] * 9

    told = namespace.remove(cluster, made)

    command = "`kubectl delete namespace team`"
    words = f"namespace team: was made for this and stays; {command} removes it and all that is in it"
    assert told.startswith(f"{words}: ")
